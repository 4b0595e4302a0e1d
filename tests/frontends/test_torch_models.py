"""Architectures of Hugging Face's transformers, with random weights, by the torch backend."""

import gc
import pickle
import re
import subprocess
import sys
import warnings

import pytest

import onednn_graph_py as og

torch = pytest.importorskip("torch", reason="torch is not installed")
T = pytest.importorskip("transformers", reason="transformers is not installed")
front = pytest.importorskip("onednn_graph_py.torch")

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
IMAGE = {k: v for k, v in SMALL.items() if k != "vocab_size"} | {"image_size": 32, "patch_size": 8}


def text(rows):
    return {"input_ids": torch.randint(3, 100, (2, rows))}


def decoder(rows):
    return {**text(rows), "use_cache": False}


def both_sides(rows):
    return {**decoder(rows), "decoder_input_ids": torch.randint(3, 100, (2, rows + 1))}


def padded(rows):
    mask = torch.ones(2, rows, dtype=torch.long)
    mask[0, :4] = 0  # on the left, so the first queries see nothing
    return {**text(rows), "attention_mask": mask}


def padded_decoder(rows):
    return {**padded(rows), "use_cache": False}


def image(rows):
    return {"pixel_values": torch.randn(rows % 2 + 1, 3, 32, 32)}


def wide_image(rows):
    return {"pixel_values": torch.randn(rows % 2 + 1, 3, 64, 64)}


def small(*names, **more):
    """Options by an architecture's names for width, layers, heads and inner width."""
    return {**dict(zip(names, (64, 2, 4, 128), strict=False)), "vocab_size": 100, **more}


GPT2 = small("n_embd", "n_layer", "n_head")
T5 = small("d_model", "num_layers", "num_heads", "d_ff", d_kv=16)
ENCODER = {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128}
DECODER = {name.replace("en", "de", 1): n for name, n in ENCODER.items()}
SOUND = {"d_model": 64, **ENCODER, "max_source_positions": 20, "num_mel_bins": 8}
WINDOWS = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "window_size": 4}
WINDOWS |= {"depths": [1, 1], "num_heads": [2, 4]}
CONVOLUTIONS = {"hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 2, 1]}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}
SEGMENTS = {
    "backbone_config": T.ConvNextConfig(
        **CONVOLUTIONS, out_features=["stage1", "stage2", "stage3", "stage4"]
    ),
    "hidden_size": 32,
    "auxiliary_channels": 16,
    "auxiliary_in_channels": 64,
}
BOXES = {
    "backbone_config": T.RTDetrResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 32, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    ),
    **{"encoder_hidden_dim": 32, "encoder_in_channels": [32] * 3, "encoder_ffn_dim": 64},
    **{"d_model": 32, "num_queries": 10, "decoder_in_channels": [32] * 3, "decoder_ffn_dim": 64},
    **{f"{part}_attention_heads": 2 for part in ("encoder", "decoder")},
    **{"decoder_layers": 2, "decoder_n_points": 2, "hidden_expansion": 0.5},
}
WAVES = {k: v for k, v in SMALL.items() if k != "vocab_size"} | {
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}
LOCAL = {"attention_types": [[["global", "local"], 1]], "window_size": 5}
NARROW = {k: v for k, v in SMALL.items() if k != "intermediate_size"}
LEARNED = {**NARROW, "ffn_dim": 128, "word_embed_proj_dim": 64}
STAGES = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
SPECIAL = {f"{name}_token_id": i for i, name in enumerate(("pad", "cls", "sep", "bos", "eos"))}

MODELS = {
    "bert": ("BertModel", SMALL, padded),
    "distilbert": ("DistilBertModel", small("dim", "n_layers", "n_heads", "hidden_dim"), padded),
    "roberta": ("RobertaModel", SMALL, text),
    "albert": ("AlbertModel", {**SMALL, "embedding_size": 32}, text),
    "electra": ("ElectraModel", {**SMALL, "embedding_size": 32}, text),
    "mpnet": ("MPNetModel", SMALL, text),
    "modernbert": ("ModernBertModel", {**SMALL, **SPECIAL, "local_attention": 6}, padded),
    "fnet": ("FNetModel", {k: v for k, v in SMALL.items() if "heads" not in k}, text),
    "deberta": ("DebertaModel", {**SMALL, **RELATIVE}, text),
    "deberta_v2": ("DebertaV2Model", SMALL, text),
    "deberta_v2, relative": ("DebertaV2Model", {**SMALL, **RELATIVE}, text),
    "t5_encoder": ("T5EncoderModel", T5, padded),
    "t5": ("T5Model", T5, both_sides),
    "xlnet": ("XLNetModel", small("d_model", "n_layer", "n_head", "d_inner"), text),
    "clip_text": ("CLIPTextModel", {**SMALL, "max_position_embeddings": 32}, text),
    "llama": ("LlamaForCausalLM", GROUPED, padded_decoder),
    "qwen2": ("Qwen2ForCausalLM", GROUPED, decoder),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 16}, padded_decoder),
    "olmo2": ("Olmo2ForCausalLM", {**GROUPED, "pad_token_id": 0}, padded_decoder),
    "mistral, sliding window": ("MistralForCausalLM", {**GROUPED, "sliding_window": 5}, decoder),
    "gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 16}, decoder),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 16, "sliding_window": 5}, decoder),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        small("hidden_size", "num_layers", "num_heads", **LOCAL),
        decoder,
    ),
    "phi": ("PhiForCausalLM", SMALL, decoder),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL, decoder),
    "gpt2": ("GPT2LMHeadModel", GPT2, padded_decoder),
    "bloom, ALiBi": ("BloomForCausalLM", small("hidden_size", "n_layer", "n_head"), padded_decoder),
    "opt, learned positions": ("OPTForCausalLM", LEARNED, padded_decoder),
    "falcon": ("FalconForCausalLM", NARROW, decoder),
    "mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 2}, decoder),
    "bart": ("BartModel", small("d_model", **ENCODER, **DECODER), decoder),
    "vit": ("ViTModel", IMAGE, image),
    "siglip": ("SiglipVisionModel", IMAGE, image),
    "dinov2": ("Dinov2Model", IMAGE, image),
    "swin, windows": ("SwinModel", WINDOWS, image),
    "swinv2": ("Swinv2Model", WINDOWS, image),
    "convnextv2": ("ConvNextV2Model", CONVOLUTIONS, image),
    "convnext": ("ConvNextModel", CONVOLUTIONS, image),
    "resnet": ("ResNetModel", STAGES, image),
    "mobilenet_v2": ("MobileNetV2Model", {"image_size": 32}, image),
    "upernet": ("UperNetForSemanticSegmentation", SEGMENTS, wide_image),
    "rt_detr": ("RTDetrForObjectDetection", BOXES, wide_image),
    "whisper": ("WhisperEncoder", SOUND, lambda rows: {"input_features": torch.randn(2, 8, 40)}),
    "wav2vec2": (
        "Wav2Vec2Model",
        WAVES,
        lambda rows: {"input_values": torch.randn(2, 400 + 10 * rows)},
    ),
}
"""The class of each, its options, and a function of its inputs."""


def make(name, **more):
    """A model with random weights."""
    kind, options, _ = MODELS[name]
    options = {**options, **more}
    config = re.sub(r"(Encoder|LMHead)?(Model|For[A-Z]\w+)?$", "Config", kind, count=1)
    home = T.models.whisper.modeling_whisper if kind == "WhisperEncoder" else T
    return getattr(home, kind)(getattr(T, config)(**options)).eval()


PLACED = {"deberta", "deberta_v2, relative"}
"""Models of which torch moves scores by positions: it gathers them, and they count."""

MOSTLY_TORCH = {"mixtral"}
"""Models of which less than half of the arithmetic runs in oneDNN, which warns."""

DISTINCT = {"rt_detr": {"initializer_range": 0.3}}
"""Options with which random weights give no equal scores, of which topk may take any."""

ONE_BATCH = {"rt_detr"}
"""Models of which torch.export takes the batch for a constant."""

WITHOUT_BF16 = {"fnet"}
"""Models that torch itself does not run in bf16: it has no such FFT."""

WITHOUT_AUTOCAST = {"deberta"}
"""Models that torch itself does not run under autocast to bf16, as a test says below."""

IN_EACH_RUN = ("bert", "llama", "gpt2", "vit", "resnet", "whisper")


def tensors(given):
    """All tensors in a model's result."""
    if isinstance(given, torch.Tensor):
        return [given]
    parts = given.values() if hasattr(given, "values") else given or ()
    return [t for part in parts for t in tensors(part)]


def cases():
    for name in MODELS:
        marks = () if name in IN_EACH_RUN else pytest.mark.slow
        yield pytest.param(name, "f32", None, id=name, marks=marks)
        yield pytest.param(name, "f32", True, id=f"{name}, dynamic", marks=pytest.mark.slow)
        for kind, without in (("bf16", WITHOUT_BF16), ("autocast", WITHOUT_AUTOCAST)):
            if name not in without:
                yield pytest.param(name, kind, None, id=f"{name}, {kind}", marks=pytest.mark.slow)
    for name in ("bert", "deberta_v2, relative", "upernet"):
        case = f"{name}, autocast, dynamic"
        yield pytest.param(name, "autocast", True, id=case, marks=pytest.mark.slow)


def distance(got, wanted):
    """The largest difference, as a part of the largest element."""
    scale = float(wanted.double().abs().max()) or 1.0
    return float((got.double() - wanted.double()).abs().max()) / scale


# What torch and transformers warn of is theirs.
@pytest.mark.filterwarnings("ignore", "error::RuntimeWarning", "error:.*oneDNN:UserWarning")
@pytest.mark.parametrize("name, kind, dynamic", [*cases()])
def test_model(name, kind, dynamic):
    if kind != "f32" and (why := og.machine.cpu.lacks("bf16")):
        pytest.skip(why)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast")
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    inputs = MODELS[name][-1]
    exact = make(name)
    model = make(name).to(dtype)
    exact.load_state_dict(model.state_dict())
    run = torch.compile(model, backend="onednn_graph", dynamic=dynamic)
    mode = torch.inference_mode if dynamic else torch.no_grad
    with mode(), warnings.catch_warnings():
        if name in MOSTLY_TORCH:
            warnings.simplefilter("ignore", front.FallbackWarning)
        for rows in (12, 15, 9):
            given = inputs(rows)
            typed = {
                k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                for k, v in given.items()
            }
            with autocast:
                made = tensors(run(**typed)), tensors(model(**typed))
            for got, eager, wanted in zip(*made, tensors(exact(**given)), strict=True):
                assert got.shape == eager.shape and got.dtype == eager.dtype
                assert torch.equal(got.isnan(), eager.isnan())
                # As far from exact numbers as torch is, or a few roundings of f32.
                allowed = max(3 * distance(eager, wanted), 2e-5 if kind == "f32" else 0.02)
                assert distance(got, wanted) <= allowed
    graphs = front.report(run).graphs
    assert graphs and all(r.failure is None for g in graphs for r in g.regions)
    if name in PLACED:
        assert sum(g.share * g.work for g in graphs) > 0.8 * sum(g.work for g in graphs)
    elif name not in MOSTLY_TORCH:
        assert all(g.share > 0.9 for g in graphs)


@pytest.mark.parametrize("name", sorted(WITHOUT_AUTOCAST))
def test_torch_itself_fails_under_autocast(name):
    # It fills scores, which are bf16, with the least number of queries, which are f32.
    model, given = make(name), MODELS[name][-1](12)
    message = "cannot be converted to type c10::BFloat16 without overflow"
    autocast = torch.autocast("cpu", torch.bfloat16)
    with torch.no_grad(), autocast, pytest.raises(RuntimeError, match=message):
        model(**given)


WITHOUT_TORCH = """
import pickle, sys
sys.modules["torch"] = None  # as where it is not installed
with open(sys.argv[1], "rb") as file:
    model, calls = pickle.load(file)
results = [model(*arrays) for arrays in calls]
with open(sys.argv[1], "wb") as file:
    pickle.dump([r if isinstance(r, tuple) else (r,) for r in results], file)
"""


def exports():
    for name in MODELS:
        known = pytest.mark.slow if name not in ("bert", "llama", "vit", "resnet") else ()
        yield pytest.param(name, False, id=name, marks=known)
        if name not in ONE_BATCH:
            yield pytest.param(name, True, id=f"{name}, unknown dims", marks=pytest.mark.slow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, unknown", [*exports()])
def test_exported_model_runs_without_torch(name, unknown, tmp_path):
    torch.manual_seed(0)
    inputs = MODELS[name][-1]
    module = make(name, **DISTINCT.get(name, {}))
    given = [inputs(n) for n in ((13, 9, 16) if unknown else (12,))]
    calls = [{k: v for k, v in g.items() if isinstance(v, torch.Tensor)} for g in given]
    shapes = None
    if unknown:  # the batch, and sizes that differ; torch takes minutes for both sides of images
        sizes = {k: [c[k].shape for c in calls] for k in calls[0]}
        differ = {
            k: [i for i, d in enumerate(zip(*s, strict=True)) if not i or len({*d}) > 1]
            for k, s in sizes.items()
        }
        shapes = {
            k: dict.fromkeys(differ.get(k, ()), torch.export.Dim.AUTO) or None for k in given[0]
        }
    with torch.no_grad():
        model = front.export(module, (), given[0], dynamic_shapes=shapes)
        wanted = [tensors(module(**g)) for g in given]
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, [[t.numpy() for t in c.values()] for c in calls])))
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, path], check=True)
    for got, theirs in zip(pickle.loads(path.read_bytes()), wanted, strict=True):
        for array, tensor in zip(got, theirs, strict=True):
            assert array.shape == tuple(tensor.shape)
            assert distance(torch.from_numpy(array), tensor) <= 2e-5


@pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning")
@pytest.mark.parametrize("name", ["llama", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_tokens_are_generated_with_a_cache(name):
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    model = make(name)
    given = padded(7)
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.no_grad():
        wanted = model.generate(**given, **options)
        model.forward = torch.compile(model.forward, backend="onednn_graph")
        assert torch.equal(model.generate(**given, **options), wanted)
    graphs = front.report(model).graphs
    assert len(graphs) <= 4  # the cache grows, and is no reason to capture anew
    assert all(g.share > 0.9 and r.failure is None for g in graphs for r in g.regions)


@pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning")
def test_a_cache_of_one_size_compiles_once_for_prompts_and_once_for_tokens():
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    model = make("llama")
    given = {"input_ids": torch.arange(3, 10)[None]}
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    options["cache_implementation"] = "static"
    with torch.no_grad():
        wanted = model.generate(**given, **options)
        model.forward = torch.compile(model.forward, backend="onednn_graph")
        assert torch.equal(model.generate(**given, **options), wanted)
    prompt, token = front.report(model).graphs
    assert {r.shapes for g in (prompt, token) for r in g.regions} == {1}
    assert prompt.share > 0.9 and token.share > 0.9

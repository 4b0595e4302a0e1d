"""Pages of notebooks and of the documentation as a browser draws them.

``./dev screens`` provides what this needs.
"""

import importlib.util
import inspect
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
import screens

import onednn_graph_py as og

LACKING = screens.missing()
# Where pictures are kept, for people. ./dev screens sets it, and provides all: nothing is skipped.
PICTURES = os.environ.get("ONEDNN_GRAPH_PY_SCREENS")
pytestmark = pytest.mark.skipif(
    bool(LACKING) and PICTURES is None, reason=f"needs {LACKING}: ./dev screens"
)

ROOT = Path(__file__).resolve().parents[2]

BUILDER = """
import warnings
import numpy as np
import onednn_graph_py as og

rng = np.random.default_rng(0)
b = og.GraphBuilder()
x = b.input((1, 3, 32, 32), "f32", name="image")
weights, bias = rng.random((8, 3, 3, 3), "f4"), rng.random(8, "f4")
made = b.convolution(
    x, weights, bias, strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
    data_format="NCX", weights_format="OIX", name="conv",
).relu(name="act")
pooled = made.max_pool(
    strides=(2, 2), kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0), data_format="NCX",
    name="<pool> & more",
)
b.output(pooled)
model = b.compile(slow_fusions="run")  # fused, however busy the machine is
"""
CELLS = {
    "builder": BUILDER + "b",
    "model": "model",
    "profile": """
with og.profile() as p:
    for _ in range(5):
        model(np.ones((1, 3, 32, 32), np.float32))
p
""",
    "explain": "model.explain()",
    "unsupported": """
b = og.GraphBuilder()
x = b.input((8, 16), "f32", name="x")
b.output((x @ rng.random((16, 16), "f4")).pow(beta=0.3, name="<root>").relu())
og.explain(b)
""",
}


def notebook_runner():
    spec = importlib.util.spec_from_file_location("notebook_run", ROOT / "notebooks" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The same executed notebook in the light and in the dark theme, as files."""
    import nbformat
    from nbconvert import HTMLExporter

    folder = tmp_path_factory.mktemp("screens")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    runner = notebook_runner()
    before = dict(os.environ)
    try:
        runner.use_this_python(folder)
        assert runner.execute(notebook, folder) is None
    finally:
        os.environ.clear()
        os.environ.update(before)
    files = {}
    for theme in ("light", "dark"):
        exporter = HTMLExporter(theme=theme, require_js_url="", jquery_url="", mathjax_url="")
        files[theme] = folder / f"{theme}.html"
        files[theme].write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with screens.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(params=["light", "dark"])
def page(request, pages, browser):
    shown = browser(pages[request.param])
    if PICTURES is not None:
        shown.picture(Path(PICTURES) / f"{request.param}.png")
    return shown


def output(name):
    """The element that holds what a cell shows, as JavaScript."""
    return f"document.querySelectorAll('.jp-Cell')[{list(CELLS).index(name)}]"


DRAWN = """
const boxed = (g) => {
  const texts = [...g.querySelectorAll("text")];
  const shape = g.querySelector("path, polygon, ellipse");
  return {
    texts: texts.map((t) => t.textContent.replaceAll("\\u00a0", " ").trim()),
    boxes: texts.map(box), shape: box(shape), fill: getComputedStyle(shape).fill,
    contrasts: texts.map((t) => contrast(solid(getComputedStyle(t).fill),
                                         solid(getComputedStyle(shape).fill))),
  };
};
const image = %s.querySelector("img");
// The picture's own elements can be asked only when they are part of the page.
const written = decodeURIComponent(escape(atob(image.src.split("base64,")[1])));
const svg = new DOMParser().parseFromString(written, "image/svg+xml").documentElement;
document.body.append(svg);
const drawn = {svg: box(svg), image: box(image), loaded: image.complete && image.naturalWidth > 0,
        page: document.documentElement.clientWidth,
        nodes: [...svg.querySelectorAll("g.node")].map(boxed),
        clusters: [...svg.querySelectorAll("g.cluster")].map(boxed),
        edges: [...svg.querySelectorAll("g.edge text")].map(
          (t) => t.textContent.replaceAll("\\u00a0", " ").trim())};
svg.remove();
return drawn;
"""


def inside(inner, outer, slack=1.0):
    return (
        inner["left"] >= outer["left"] - slack
        and inner["right"] <= outer["right"] + slack
        and inner["top"] >= outer["top"] - slack
        and inner["bottom"] <= outer["bottom"] + slack
    )


@pytest.mark.parametrize("cell", ["builder", "model"])
def test_a_graph_is_drawn_whole_and_legible(page, cell):
    drawn = page.ask(DRAWN % output(cell))
    assert drawn["loaded"]
    assert 0 < drawn["image"]["width"] <= drawn["page"]
    # As large as it was made: letters are not shrunk to nothing.
    assert np.isclose(drawn["image"]["height"], drawn["svg"]["height"], atol=1)
    nodes = {node["texts"][0]: node for node in drawn["nodes"]}
    assert {"Convolution", "ReLU", "MaxPool", "input image"} <= set(nodes)
    assert "<pool> & more" in " ".join(nodes["MaxPool"]["texts"])
    for node in drawn["nodes"]:
        assert inside(node["shape"], drawn["svg"])
        for text, where, contrast in zip(
            node["texts"], node["boxes"], node["contrasts"], strict=True
        ):
            assert where["width"] > 0 and where["height"] > 0
            assert inside(where, node["shape"]), f"{text!r} sticks out of its node"
            assert contrast >= 4.5, f"{text!r} can't be read"
    # Partitions are coloured areas around the ops that they compute.
    conv = [c for c in drawn["clusters"] if inside(nodes["Convolution"]["shape"], c["shape"])]
    pool = [c for c in drawn["clusters"] if inside(nodes["MaxPool"]["shape"], c["shape"])]
    assert len(conv) == len(pool) == 1
    assert inside(nodes["ReLU"]["shape"], conv[0]["shape"])
    assert not inside(nodes["MaxPool"]["shape"], conv[0]["shape"])
    assert conv[0]["fill"] != pool[0]["fill"]
    assert any("f32 1x3x32x32" in text for text in drawn["edges"])
    assert any("f32 1x8x32x32" in text for text in drawn["edges"])


TABLE = """
const table = %s.querySelector(".jp-RenderedHTML table");
return [...table.rows].map((row) => [...row.cells].map((cell) => ({
  text: cell.textContent, box: box(cell),
  contrast: contrast(solid(getComputedStyle(cell).color), under(cell)),
})));
"""


def legible(rows):
    for row in rows:
        for cell in row:
            assert cell["box"]["width"] > 0 and cell["box"]["height"] > 0
            assert cell["contrast"] >= 4.5 or not cell["text"], cell


def test_the_table_of_a_profile(page):
    head, *rows = page.ask(TABLE % output("profile"))
    legible([head, *rows])
    column = {cell["text"]: i for i, cell in enumerate(head)}
    assert [r[column["step"]]["text"] for r in rows] == ["conv + act", "<pool> & more"]
    assert [r[column["count"]]["text"] for r in rows] == ["5", "5"]
    shares = [float(r[column["share"]]["text"].rstrip("%")) for r in rows]
    assert np.isclose(sum(shares), 100, atol=0.1 * len(shares))


def test_the_table_of_an_explanation(page):
    head, *rows = page.ask(TABLE % output("explain"))
    legible([head, *rows])
    column = {cell["text"]: i for i, cell in enumerate(head)}
    conv, pool = ({name: row[i]["text"] for name, i in column.items()} for row in rows)
    assert conv["ops"].startswith("Convolution") and "ReLU" in conv["ops"]
    assert "<pool> & more" in pool["ops"]
    assert conv["by"] == pool["by"] == "oneDNN"
    assert conv["kernel"].startswith("convolution ")
    assert pool["kernel"].startswith("pooling ")
    shares = [float(r["share"].rstrip("%")) for r in (conv, pool)]
    assert np.isclose(sum(shares), 100, atol=0.2)
    # What is behind a title is hidden until the title is clicked.
    opened = page.ask(
        f"""
        const details = {output("explain")}.querySelector("details");
        const inner = details.querySelector("table");
        const before = inner.checkVisibility();
        details.querySelector("summary").click();
        return {{before, after: inner.checkVisibility(), text: inner.textContent,
                width: box(inner).right, page: document.documentElement.clientWidth}};
        """
    )
    assert (opened["before"], opened["after"]) == (False, True)
    assert "f32 1x3x32x32 row-major, 12.0 KiB" in opened["text"]
    assert opened["width"] <= opened["page"]


def test_what_is_not_supported_is_told_with_what_was_tried(page):
    told = page.ask(
        f"""
        return [...{output("unsupported")}.querySelectorAll("details[open]")].map((e) => ({{
          text: e.innerText, box: box(e),
          contrast: contrast(solid(getComputedStyle(e).color), under(e)),
        }}));
        """
    )
    legible([told])
    root = next(t["text"] for t in told if t["text"].startswith("Pow '<root>'"))
    assert "unsupported" in root and "no cpu kernel for Pow" in root
    assert "changes were tried" in root


# -- the site that ./dev docs builds

SITE = ROOT / "build" / "docs"
SOURCES = [p for form in ("*.md", "*/*.rst", "*.rst") for p in (ROOT / "docs").glob(form)]
SITE_PAGES = sorted(str(p.relative_to(ROOT / "docs").with_suffix(".html")) for p in SOURCES)
built = pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: ./dev docs")

ILLEGIBLE = """
for (const folded of document.querySelectorAll("details")) folded.open = true;
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
while (texts.nextNode()) {
  const text = texts.currentNode.data.trim(), holder = texts.currentNode.parentElement;
  const drawn = holder.checkVisibility({visibilityProperty: true, opacityProperty: true});
  if (!text || !drawn || holder.closest("svg, script, style")) continue;
  const reached = contrast(solid(getComputedStyle(holder).color), under(holder));
  if (reached < 4.5) found.push(`${text.slice(0, 40)}: ${reached.toFixed(2)}`);
}
return found;
"""


# What is wider than its place, and has no scroll bar that takes room below it.
CUT_OFF = """
return [...document.querySelectorAll("article *")].filter((e) => {
  const style = getComputedStyle(e);
  const borders = parseFloat(style.borderTopWidth) + parseFloat(style.borderBottomWidth);
  return e.clientWidth && style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1
    && e.offsetHeight - e.clientHeight <= borders + 1;
}).map((e) => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`);
"""

# Labels of arrows that lie across the border of a partition.
ACROSS = """
const parts = [...document.querySelectorAll("g.cluster > path")].map(box);
return [...document.querySelectorAll("g.edge text")].filter((text) => {
  const label = box(text), middle = (label.top + label.bottom) / 2;
  return parts.some((p) => p.top < middle && middle < p.bottom
    && label.left < p.right && p.right < label.right);
}).map((text) => text.textContent);
"""


@built
@pytest.mark.parametrize("name", SITE_PAGES)
def test_a_page_of_the_site_is_legible_and_fits_any_screen(name, browser):
    shown = browser(SITE / name)
    for theme in ("light", "dark"):
        shown.ask("document.body.dataset.theme = arguments[0]", theme)
        assert shown.ask(ILLEGIBLE) == [], theme
        scheme = shown.ask("return getComputedStyle(document.documentElement).colorScheme")
        assert (scheme == "dark") == (theme == "dark")  # the page's own scroll bar has it too
    assert shown.ask(ACROSS) == []
    for width in (1400, 400):
        shown.resize(width)
        page = "document.documentElement"
        assert shown.ask(f"return {page}.scrollWidth - {page}.clientWidth") <= 0, width
        assert shown.ask(CUT_OFF) == [], width


@built
def test_the_site_lists_the_options_of_compile_at_compile():
    page = (SITE / "api" / "models.html").read_text(encoding="utf-8")
    entry = page.partition('id="onednn_graph_py.GraphBuilder.compile"')[2]
    entry = entry.partition('id="onednn_graph_py.GraphBuilder.diagram"')[0]
    listed = re.findall(r"<li><p><strong>(\w+)</strong>", entry)
    options = list(inspect.signature(og.CompiledGraph).parameters)
    assert listed == options[1:]


@built
@pytest.mark.parametrize("words", ["why not fused", "attention", "stride"])
def test_a_search_finds_guides_first_and_measured_pages_later(words, browser):
    shown = browser(SITE / "search.html")
    shown.ask("location.search = new URLSearchParams({q: arguments[0]})", words)
    # Sphinx shows its hits one after the other.
    links = "[...document.querySelectorAll('ul.search li > a')].map((a) => a.pathname)"
    deadline = time.monotonic() + 30
    while len(hits := shown.ask(f"return {links}")) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    pages = [Path(hit).name for hit in hits[:5]]
    assert len(pages) == 5
    assert pages[0].startswith("guide_")
    assert not [page for page in pages if page.startswith(("onednn_", "patterns"))]


@built
def test_a_cell_of_the_heat_map_opens_the_cases_that_it_counts(browser):
    shown = browser(SITE / "patterns.html")
    link = "document.querySelector('.heat-map a[href=\"#FP-05-bf16\"]')"
    place = "document.getElementById('FP-05-bf16')"
    row = f"{place}.closest('tr')"
    before = shown.ask(f"return {row}.checkVisibility()")
    shown.ask("document.documentElement.style.scrollBehavior = 'auto'")  # at once
    shown.ask(f"{link}.click()")
    after = shown.ask(
        f"return {{drawn: {row}.checkVisibility(), where: box({row}), height: innerHeight}}"
    )
    assert (before, after["drawn"]) == (False, True)
    assert 0 <= after["where"]["top"] < after["height"]
    first = shown.ask(f"return {row}.cells[0].textContent").strip()
    assert first.split()[-1] == "bf16"

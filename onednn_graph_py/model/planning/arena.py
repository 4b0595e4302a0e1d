"""The arena: memory for the tensors between steps, shared by tensors whose lifetimes differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .plan import PlannedStep, Slot
from .views import Origin

ALIGNMENT = 64


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class _Block:
    """Memory that is in use from one step to another."""

    size: int
    first: int
    last: int
    offset: int = 0


def _place(blocks: Sequence[_Block], steps: int) -> int:
    """Give each block an offset, the large ones first; return the bytes that all need."""
    placed: list[list[_Block]] = [[] for _ in range(steps)]  # by the steps at which they are in use
    total = 0
    for block in sorted(blocks, key=lambda b: (-b.size, b.first)):
        offset = 0
        meanwhile = placed[block.first : block.last + 1]
        others = {id(b): b for alive in meanwhile for b in alive}.values()
        for other in sorted(others, key=lambda b: b.offset):
            if offset + block.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        block.offset = offset
        total = max(total, offset + block.size)
        for alive in meanwhile:
            alive.append(block)
    return total


def lay_out(
    steps: Sequence[PlannedStep], slots: dict[int, Slot], views: Mapping[int, Origin]
) -> int:
    """Put intermediate tensors and scratchpads into one arena by their lifetimes."""
    last_use: dict[int, int] = {}
    for i, step in enumerate(steps):
        for read in step.read:
            origin = views.get(read)
            last_use[read if origin is None else origin.id] = i
    blocks: dict[int, _Block] = {}
    scratchpads: list[tuple[PlannedStep, _Block]] = []
    for i, step in enumerate(steps):
        taken: set[int] = set()
        for made, lt in zip(step.made, step.outputs, strict=True):
            if made in slots or made in views:
                continue
            until = last_use.get(made, i)
            source = step.in_place.get(made)
            block = blocks.get(source) if source is not None else None
            size = _aligned(lt.get_mem_size())
            # The output reuses the input's memory if no later step reads the input.
            reuse = block is not None and block.last == i and block.size >= size
            if reuse and block is not None and id(block) not in taken:
                taken.add(id(block))
                block.last = until
                blocks[made] = block
            else:
                blocks[made] = _Block(size, i, until)
        if step.scratchpad_bytes:
            scratchpads.append((step, _Block(_aligned(step.scratchpad_bytes), i, i)))
    unique = list({id(b): b for b in blocks.values()}.values())
    total = _place(unique + [b for _, b in scratchpads], len(steps))
    for made, block in blocks.items():
        slots[made] = Slot("arena", block.offset)
    for step, block in scratchpads:
        step.scratchpad = block.offset
    slots.update({view: slots[of.id].after(of.offset) for view, of in views.items()})
    return total

"""The pages of docs/ are true: their code runs, their links hold, no public name is missing."""

import ast
import contextlib
import io
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn.attention import varlen
from torch.nn.functional import scaled_dot_product_attention

import bload

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
FENCE = re.compile(r"^``` ?([\w{.]*)[^\n]*\n(.*?)^```$", re.S | re.M)


def run_blocks(page):
    """Run the Python blocks as one program; yield what each printed and what the page says."""
    namespace = {"__name__": page.stem}
    blocks = FENCE.findall(page.read_text())
    for (language, code), (next_language, after) in pairwise([*blocks, ("", "")]):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}: {code.splitlines()[0]}", "exec"), namespace)
        yield printed.getvalue(), after if next_language == "text" else ""


def causal_attention_alone(values_F, cu_seqlens):
    """The kernels' definition: causal attention within each run of frames ``(F, heads, width)``."""
    pieces = [values_F[low:high].transpose(0, 1) for low, high in pairwise(cu_seqlens.tolist())]
    outputs = [scaled_dot_product_attention(one, one, one, is_causal=True) for one in pieces]
    return torch.cat([one.transpose(0, 1) for one in outputs])


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1)):
    assert window_size == (-1, 0)
    assert max(cu_seq_q.diff()) == max_q == max_k
    return causal_attention_alone(query, cu_seq_k)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, *, causal, **_):
    assert causal
    return causal_attention_alone(q, cu_seqlens_q)


class Mamba2(nn.Module):
    """Stands for Mamba's scan: a sum that begins anew where ``seq_idx`` changes."""

    def __init__(self, d_model):
        super().__init__()

    def forward(self, u, seqlen=None, seq_idx=None):
        assert seq_idx.dtype == torch.int32
        assert seq_idx.is_contiguous()
        same_BTT = (seq_idx[:, :, None] == seq_idx[:, None]).tril()
        return same_BTT.to(u.dtype) @ u


@pytest.fixture
def kernels(monkeypatch):
    """Definitions of kernels that need a GPU or another library."""
    monkeypatch.setattr(varlen, "varlen_attn", varlen_attn)
    for name, value in (("flash_attn", flash_attn_varlen_func), ("mamba_ssm", Mamba2)):
        module = ModuleType(name)
        setattr(module, value.__name__, value)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("start.md", 4),
        ("boundaries.md", 4),
        ("data.md", 1),
        ("recipes.md", 0),
    ],
)
def test_the_code_of_a_page_prints_what_the_page_says(name, least, kernels):
    outputs = [*run_blocks(DOCS / name)]
    for printed, expected in outputs:
        assert printed == expected
    assert sum(bool(printed) for printed, _ in outputs) >= least


class Features:
    """Frames of 16 features, and whether their sum is positive as the target of each."""

    def __init__(self, lengths):
        self.lengths = lengths

    def read(self, sequence, first, length):
        frames = torch.randn(length, 16)
        return frames, (frames.sum(1) > 0).long()


def test_the_readmes_loop_trains():
    gru, head = nn.GRU(16, 8, batch_first=True), nn.Linear(8, 2)
    before, own = head.weight.clone(), Features([3, 5, 8])
    dataset = [own.read(video, 0, length) for video, length in enumerate(own.lengths)]
    names = {
        **{"dataset": dataset, "epochs": 2, "gru": gru, "head": head},
        "encoder": torch.nn.Identity(),
        "optimiser": torch.optim.SGD([*gru.parameters(), *head.parameters()], lr=0.1),
        "cross_entropy": torch.nn.functional.cross_entropy,
    }
    (code,) = [code for kind, code in FENCE.findall(README.read_text()) if kind == "python"]
    exec(compile(code, "README.md", "exec"), names)
    assert not torch.equal(head.weight, before)
    on_eight = bload.BlockLoader(Features(bload.action_genome_lengths()), rank=0, world_size=8)
    assert f"`{on_eight}`" in " ".join(README.read_text().split())


def test_every_public_name_is_on_an_api_page_once():
    pages = "".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    shown = re.findall(r"^::: bload\.([\w.]+)$", pages, re.M)
    assert sorted(name for name in shown if "." not in name) == sorted(bload.__all__)
    assert len(set(shown)) == len(shown)


def names_in(arguments):
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def test_arguments_in_docstrings_are_arguments():
    """One a line, by its own name: what a reader of the API pages looks for."""
    for file in sorted((ROOT / "bload").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            section = re.search(
                r"^Args:\n((?:    .*\n|\n)*)", (ast.get_docstring(node) or "") + "\n", re.M
            )
            documented = re.findall(r"^    (\w[^:\n]*):", section[1], re.M) if section else []
            functions = [node] if isinstance(node, ast.FunctionDef) else node.body
            known = {f.target.id for f in functions if isinstance(f, ast.AnnAssign)}
            for function in functions:
                if isinstance(function, ast.FunctionDef):
                    known |= {*names_in(function.args)}
                    known |= {function.args.kwarg.arg} if function.args.kwarg else set()
            assert {*documented} <= known, f"{file.name}: {node.name}"


def test_links_lead_to_files():
    for page in [README, *DOCS.rglob("*.md")]:
        text = FENCE.sub("", page.read_text())
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", settings, re.M)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))

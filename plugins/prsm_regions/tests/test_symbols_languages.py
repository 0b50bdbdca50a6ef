"""What each language defines is found, with its kind, place and signature."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_regions.symbols.definitions import MAX_TEXT, definitions
from prsm_regions.symbols.grammars import GRAMMARS, Grammar, grammar_of
from prsm_regions.symbols.outlines import SHARE, outline

from tests.conftest import report  # noqa: F401 - a fixture
from tests.sources import ROOT, package_files, suite_files

SAMPLES = {
    "a.py": (
        "LIMIT = 3\nclass A(B):\n    x: int = 1\n    def m(self, y: int) -> str:\n        pass\n"
        "    lam = lambda self: 1\nasync def f(a, *, b=2):\n    def inner(): pass\ng = lambda: 1\n",
        {
            "variable LIMIT", "class A", "field A.x", "method A.m", "method A.lam", "function f",
            "function f.inner", "function g",
        },
        "def m(self, y: int) -> str:",
    ),
    "a.js": (
        "class A { #p = 1; static m(x) { } }\nfunction f(a) {}\nexport const g = (x) => x;\n"
        "const LIMIT = 3;\nfunction* it() {}\nlet K = class { n() {} };\n",
        {
            "class A", "field A.#p", "method A.m", "function f", "function g", "variable LIMIT",
            "function it", "class K", "method K.n",
        },
        "static m(x)",
    ),
    "a.ts": (
        "export class A<T> { private x: number = 1; m(y: string): void {} }\nabstract class B {"
        " abstract n(): void }\ninterface I { p: string; q(): number }\nenum E { One, Two = 2 }\n"
        "type T = string | number;\nfunction f(a: number): A<T> { return null }\n"
        "namespace N { export const g = () => 1 }\nexport const c: number = 1;\n",
        {
            "class A", "field A.x", "method A.m", "class B", "method B.n", "interface I",
            "field I.p", "method I.q", "enum E", "variant E.One", "variant E.Two", "type T",
            "function f", "namespace N", "function N.g", "variable c",
        },
        "m(y: string): void",
    ),
    "a.tsx": ("export const C = (p: P) => <div>{p.x}</div>;\n", {"function C"}, "C = (p: P) =>"),
    "a.go": (
        "package a\nconst C = 1\nvar V int\ntype S struct { X int }\ntype I interface { M() int }\n"
        "type T int\ntype U = S\nfunc (s *S) Do(a int) error { return nil }\nfunc F() {}\n",
        {
            "constant C", "variable V", "struct S", "field S.X", "interface I", "method I.M",
            "type T", "type U", "method S.Do", "function F",
        },
        "func (s *S) Do(a int) error",
    ),
    "a.rs": (
        "pub struct S { pub x: u8 }\nstruct Unit;\nenum E { A, B(u8) }\ntrait T { fn need(&self);"
        " }\nimpl S { pub fn validate(&self, t: &str) -> bool { true } }\nimpl T for S { fn need("
        "&self) {} }\nmod m { pub fn inside() {} }\nconst C: u8 = 1;\nstatic G: u8 = 1;\n"
        "type R = u8;\nmacro_rules! mac { () => {} }\nunion N { a: u8 }\nfn free() {}\n",
        {
            "struct S", "field S.x", "struct Unit", "enum E", "variant E.A", "variant E.B",
            "trait T", "method T.need", "impl S", "method S.validate", "method S.need", "module m",
            "function m.inside", "constant C", "variable G", "type R", "macro mac", "union N",
            "field N.a", "function free",
        },
        "pub fn validate(&self, t: &str) -> bool",
    ),
    "a.java": (
        "class A { int x; A(int y) {} void m(String s) {} enum E { ONE } }\ninterface I { int n();"
        " int K = 1; }\nrecord R(int z) {}\n@interface N { int v(); }\n",
        {
            "class A", "field A.x", "constructor A.A", "method A.m", "enum A.E", "variant A.E.ONE",
            "interface I", "method I.n", "field I.K", "record R", "annotation N", "method N.v",
        },
        "void m(String s)",
    ),
    "a.c": (
        "#define M 1\n#define F(x) x\nstruct S { int x; char *y; };\nenum E { ONE };\nunion U { int"
        " a; };\ntypedef int T;\nint proto(int a);\nint *f(int a) { return 0; }\nint g = 1;\n",
        {
            "macro M", "macro F", "struct S", "field S.x", "field S.y", "enum E", "variant E.ONE",
            "union U", "field U.a", "type T", "function proto", "function f", "variable g",
        },
        "int *f(int a)",
    ),
    "a.cpp": (
        "namespace n { class A { public: A(); ~A(); int m() const; int k() { return 1; } int x; };"
        " }\nint n::A::m() const { return 1; }\nusing T = int;\ntemplate <class Q> Q f(Q q) {"
        " return q; }\n",
        {
            "namespace n", "class n.A", "method n.A.m", "method n.A.k", "field n.A.x", "type T",
            "function f", "method n.A.~A",
        },
        "int n::A::m() const",
    ),
}  # fmt: skip


def _found(path: str, text: str) -> list:
    return definitions(text.encode(), _grammar(path))


def _grammar(path: str) -> Grammar:
    grammar = grammar_of(path)
    assert grammar is not None
    return grammar


def _titles(found: list) -> set[str]:
    return {f"{one.kind} {f'{one.scope}.' if one.scope else ''}{one.name}" for one in found}


@pytest.mark.parametrize("path", SAMPLES)
def test_all_kinds_of_a_language_are_found_with_their_signatures(path):
    text, expected, signature = SAMPLES[path]
    found = _found(path, text)
    assert expected <= _titles(found)
    assert any(one.text.find(signature) >= 0 for one in found)


def test_each_grammar_has_a_sample():
    assert {grammar.name for grammar in GRAMMARS} == {
        grammar.name for path in SAMPLES if (grammar := grammar_of(path))
    }


def test_the_text_of_a_class_is_its_head_and_its_members_without_a_body():
    text = "class A(Base):\n    def m(self,\n          x) -> int:\n        secret = 1\n"
    (one, *_) = _found("a.py", text)
    assert one.text == "class A(Base):\n    def m(self, x) -> int:"
    assert (one.start, one.end) == (1, 4)


def test_a_class_of_a_thousand_members_is_cut():
    text = "class A:\n" + "".join(f"    def member_{n}(self): pass\n" for n in range(1000))
    assert len(_found("a.py", text)[0].text.encode()) <= MAX_TEXT


def test_an_error_hides_no_more_than_its_own_definition():
    titles = _titles(_found("a.py", "class A:\n  def m(self): pass\n\ndef (:\n\nclass B: pass\n"))
    assert {"class A", "method A.m", "class B"} <= titles


@pytest.mark.parametrize("path", SAMPLES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_text_breaks_the_reader(path, data):
    text = SAMPLES[path][0].encode()
    at = data.draw(st.integers(0, len(text)))
    broken = text[:at] + data.draw(st.binary(max_size=20)) + text[data.draw(st.integers(0, at)) :]
    for one in definitions(broken, _grammar(path)):
        assert one.name
        assert 1 <= one.start <= one.end <= broken.count(b"\n") + 1
        assert len(one.text.encode()) <= MAX_TEXT


def test_outlines_take_at_most_their_share_of_the_source():
    for path in package_files()[::7]:
        text = path.read_text(encoding="utf-8")
        made = outline("a.py", len(text.encode()), _found("a.py", text))
        assert len(made.encode()) <= SHARE * len(text.encode())


def _by_ctags(paths: list[Path]) -> dict[tuple[str, str, int], str]:
    ctags = shutil.which("ctags")
    if ctags is None or b"Universal" not in subprocess.check_output([ctags, "--version"]):
        pytest.skip("Universal Ctags is missing")
    options = ["--fields=+Kn", "--kinds-python=cfm", "--languages=Python", "--output-format=json"]
    said = subprocess.run(
        [ctags, "-f", "-", *options, "-L", "-"],
        input="\n".join(map(str, paths)).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    ).stdout.decode("utf-8", "replace")
    rows = [msgspec.json.decode(line) for line in said.splitlines()]
    return {(row["path"], row["kind"], row["line"]): row["name"] for row in rows}


def _agreement(paths: list[Path]) -> tuple[float, list]:
    """Return the share of names that both know; ctags calls a lambda in `x: T = …` anonFunc…."""
    theirs = {
        (*key, name) for key, name in _by_ctags(paths).items() if not name.startswith("anonFunc")
    }
    kinds = {"class": "class", "function": "function", "method": "member"}
    unnamed = {key for key, name in _by_ctags(paths).items() if name.startswith("anonFunc")}
    ours = {
        (*key, one.name)
        for path in paths
        for one in definitions(path.read_bytes(), _grammar("a.py"))
        if one.kind in kinds and (key := (str(path), kinds[one.kind], one.start)) not in unnamed
    }
    apart = ours ^ theirs
    return len(ours & theirs) / max(1, len(ours | theirs)), sorted(apart)


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)])
def test_names_of_this_repository_are_those_of_ctags(step):
    share, apart = _agreement(sorted({*package_files(), *suite_files()})[::step])
    assert (share, apart) == (1.0, [])


@pytest.mark.long
def test_names_of_the_interpreters_library_are_those_of_ctags(report):  # noqa: F811
    library = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    share, apart = _agreement(paths)
    report(f"symbols: {share:.4%} of the names of {len(paths)} files agree; apart: {len(apart)}")
    assert share >= 0.995


def test_the_queries_are_shipped():
    folder = ROOT / "plugins/prsm_regions/prsm_regions/symbols/queries"
    assert {f"{grammar.query}.scm" for grammar in GRAMMARS} == {p.name for p in folder.iterdir()}

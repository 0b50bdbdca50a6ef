"""Interfaces: what others may use of a file, by the marks of its language."""

from __future__ import annotations

import pytest
from prsm_regions.symbols.definitions import definitions
from prsm_regions.symbols.grammars import grammar_of
from prsm_regions.symbols.oracle import Oracle
from prsm_regions.symbols.outlines import interface, outline

SAMPLES = {
    "a.py": (
        "_SECRET = 1\nLIMIT = 3\nclass Store:\n    size: int = 0\n    def __init__(self): pass\n"
        "    def get(self, key: str) -> bytes:\n        def inner(): pass\n"
        "    def _put(self): pass\n"
        "class _Own:\n    def get(self): pass\ndef open_store() -> Store: pass\n",
        "LIMIT = 3\nclass Store:\n  size: int = 0\n  def __init__(self):\n"
        "  def get(self, key: str) -> bytes:\ndef open_store() -> Store:",
    ),
    "a.ts": (
        "class A { private x = 1; #y = 2; m(a: string): void {} private n() {} }\n"
        "interface I { p: string }\n",
        "class A\n  m(a: string): void\ninterface I\n  p: string",
    ),
    "a.js": ("class A { #p = 1; m(x) {} }\n", "class A\n  m(x)"),
    "a.go": (
        "package a\ntype S struct { X int; y int }\ntype own struct { Z int }\n"
        "func (s *S) Do(a int) error { return nil }\nfunc (s *S) do() {}\nfunc F() {}\n",
        "S struct\n  X int\n  func (s *S) Do(a int) error\nfunc F()",
    ),
    "a.rs": (
        "pub struct P { pub x: i32, y: i32 }\nstruct Own { pub z: i32 }\n"
        "impl P { pub fn get(&self) -> i32 { 1 } fn own(&self) {} }\n"
        "pub trait T { fn must(&self); }\nimpl T for P { fn must(&self) {} }\n",
        "pub struct P\n  pub x: i32\nimpl P\n  pub fn get(&self) -> i32\npub trait T\n"
        "  fn must(&self)\nimpl T for P\n  fn must(&self)",
    ),
    "A.java": (
        "class A { private int x; public int y; void m(int a) {} private void n() {} }\n",
        "class A\n  public int y\n  void m(int a)",
    ),
    "a.c": ("static int own(int a) { return a; }\nint open(char *path);\n", "int open(char *path)"),
}


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("path", SAMPLES)
def test_an_interface_has_every_public_member_and_nothing_private(path):
    source, wanted = SAMPLES[path]
    grammar = grammar_of(path)
    assert grammar is not None
    assert interface(path, definitions(source.encode(), grammar)) == f"{path}\n{wanted}"


def test_it_is_another_text_than_the_outline_which_has_lines_and_private_names_and_a_limit():
    source = SAMPLES["a.py"][0].encode() + b"#" * 2000
    grammar = grammar_of("a.py")
    assert grammar is not None
    made = outline("a.py", len(source), definitions(source, grammar))
    assert "1: _SECRET = 1" in made
    assert "_SECRET" not in interface("a.py", definitions(source, grammar))


def test_what_has_no_language_or_nothing_public_has_none():
    grammar = grammar_of("a.py")
    assert grammar is not None
    assert interface("a.txt", ()) == ""
    assert interface("a.py", definitions(b"_x = 1\n", grammar)) == ""


async def test_that_of_a_region_is_of_its_files_alone(tmp_path):
    tree = tmp_path / "tree"
    for path in ("core/auth.py", "core/_own.py", "ui/page.py"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(f"def {path[0]}_open(): pass\n", encoding="utf-8")
    async with Oracle(tmp_path / "state" / "index") as oracle:
        await oracle.refresh(str(tree))
        assert await oracle.interface(str(tree), "core") == (
            "core/_own.py\ndef c_open():\ncore/auth.py\ndef c_open():"
        )
        assert await oracle.interface(str(tree), "lib") == ""

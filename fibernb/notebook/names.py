"""Which names of the notebook a cell body reads.

Pure: works on Python source into which IPython's syntax has already been transformed.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator, Mapping
from typing import Final

RANK_NAMES: Final = frozenset({"rank", "size", "ranks"})
"""Names that the engine sets itself; they go out only when the user names them."""

_WORD: Final = re.compile(r"(?<![\w.])[^\W\d]\w*")
_SHELL_EXPANSION: Final = re.compile(r"\$\{?([^\W\d]\w*)|\{([^{}]+)\}")
_SHELL_CALLS: Final = frozenset({"system", "getoutput"})
_MAGIC_CALLS: Final = frozenset({"run_line_magic", "run_cell_magic"})


def names_read(source: str) -> frozenset[str]:
    """Global names that the source reads before it has certainly assigned them itself.

    Every scope counts; so do ``x += 1`` and ``del x``, and what magics and shell lines mention. Names that the
    source only assigns do not. Raises SyntaxError if it is not Python.
    """
    reads: set[str] = set()
    assigned: set[str] = set()
    for statement in ast.parse(source).body:
        reads |= _reads_of(statement) - assigned
        assigned -= _names_updated(statement)
        assigned |= _certainly_assigned(statement)
    return frozenset(reads)


def names_assigned(source: str) -> frozenset[str]:
    """Global names that the source may assign, import, define or delete. Raises SyntaxError if it is not Python."""
    return frozenset(name for statement in ast.parse(source).body for name in _assigned_by(_plain(statement)))


def names_to_push(reads: frozenset[str], namespace: Mapping[str, object], hidden: Mapping[str, object]) -> list[str]:
    """Those of the names that the notebook has itself, in alphabetical order.

    ``hidden`` are the names that IPython put into the namespace; they count only where the user has redefined them.
    """
    return sorted(
        name
        for name in reads
        if name in namespace and name not in RANK_NAMES and _belongs_to_user(name, namespace, hidden)
    )


def _belongs_to_user(name: str, namespace: Mapping[str, object], hidden: Mapping[str, object]) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return False
    value = namespace[name]
    if name in hidden and hidden[name] is value:
        return False
    return not (hasattr(builtins, name) and getattr(builtins, name) is value)


def _reads_of(statement: ast.stmt) -> set[str]:
    updated = _names_updated(statement)
    reads = {
        symbol.get_name()
        for table in _tables(symtable.symtable(_plain(statement), "<body>", "exec"))
        for symbol in table.get_symbols()
        if _reads_global(table, symbol, updated)
    }
    return reads | _names_in_magics(statement)


def _assigned_by(source: str) -> Iterator[str]:
    for table in _tables(symtable.symtable(source, "<body>", "exec")):
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (symbol.is_assigned() or symbol.is_imported()) and (at_top or symbol.is_declared_global()):
                yield symbol.get_name()


def _plain(statement: ast.stmt) -> str:
    copy = ast.parse(ast.unparse(statement))
    return ast.unparse(ast.fix_missing_locations(_Plain().visit(copy)))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _reads_global(table: symtable.SymbolTable, symbol: symtable.Symbol, updated: set[str]) -> bool:
    used = symbol.is_referenced() or (symbol.get_name() in updated and symbol.is_assigned())
    if not used:
        return False
    if table.get_type() == "module":
        return True
    # a class body looks a name up globally until it has assigned it
    return symbol.is_global() or (table.get_type() == "class" and symbol.is_local())


def _names_updated(statement: ast.stmt) -> set[str]:
    """Targets of ``x += 1`` and ``del x``, which read the name although the symbol table calls them assignments."""
    return {
        target.id for node in ast.walk(statement) for target in _updated_targets(node) if isinstance(target, ast.Name)
    }


def _updated_targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Delete) else []


def _certainly_assigned(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        case ast.Assign():
            targets = statement.targets
        case ast.AugAssign():
            targets = [statement.target]
        case ast.AnnAssign() if statement.value is not None:
            targets = [statement.target]
        case _:
            return set()
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _names_in_magics(statement: ast.stmt) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=method)):
                texts = [text.value for text in node.args if isinstance(text, ast.Constant)]
                names.update(*(_names_in_text(method, str(text)) for text in texts[-1:]))
    return names


def _names_in_text(method: str, text: str) -> set[str]:
    if method in _SHELL_CALLS:
        return _names_expanded(text)
    if method not in _MAGIC_CALLS:
        return set()
    try:
        return set(names_read(text))
    except SyntaxError:
        return set(_WORD.findall(text)) if "\n" not in text else _names_expanded(text)


def _names_expanded(text: str) -> set[str]:
    names: set[str] = set()
    for variable, expression in _SHELL_EXPANSION.findall(text):
        names.update([variable] if variable else _WORD.findall(expression))
    return names


class _Plain(ast.NodeTransformer):
    """Top-level code in a form of which the symbol table tells the same in all versions of Python.

    ``await`` goes, since it is not accepted there. Comprehensions become generator expressions: since Python 3.12
    (PEP 709) the others count as part of the scope around them, and their variables as names of the notebook.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return self.visit(node.value)  # type: ignore[no-any-return]

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        return ast.For(target=node.target, iter=node.iter, body=node.body, orelse=node.orelse)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        self.generic_visit(node)
        return ast.With(items=node.items, body=node.body)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        return ast.comprehension(target=node.target, iter=node.iter, ifs=node.ifs, is_async=0)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._generator(node.elt, node.generators)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._generator(node.elt, node.generators)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._generator(ast.Tuple(elts=[node.key, node.value], ctx=ast.Load()), node.generators)

    def _generator(self, element: ast.expr, generators: list[ast.comprehension]) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(elt=element, generators=generators))

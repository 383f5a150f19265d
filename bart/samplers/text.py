"""Samplers as short strings, for settings and estimators: ``parse_sampler`` and its inverse.

    local + (0.3*pg(region=subtree, n_particles=2) | 0.7*growprune) + joint(every=5)

A name stands for a sampler, with options in parentheses; ``+`` makes a Cycle, ``|`` a Mixture, whose parts have
probabilities in front, or none where they are equal. ``+`` binds more tightly than ``|``. A Cycle of one part is
``+a``, a Mixture of one ``1.0*a``.
"""

from __future__ import annotations

import ast
import inspect
import keyword

from .cgm import CGM
from .compose import Composition, Cycle, Mixture
from .grow_prune import GrowPrune
from .joint import JointLeaves
from .levels import Levels
from .local import Local
from .particle_gibbs import ParticleGibbs
from .perturb import Perturb
from .recut import Recut
from .reroute import Reroute
from .rotate import Rotate
from .slide import Slide
from .splice import Splice
from .transpose import Transpose

# By name, as in text; the parameters of each class are attributes of its objects, too.
SAMPLERS = {kind.name: kind for kind in (GrowPrune, CGM, ParticleGibbs, Local, Perturb, Recut, Rotate, Splice,
                                         Transpose, Reroute, JointLeaves, Levels, Slide)}


def parse_sampler(text):
    """A sampler from its text.

    Parameters
    ----------
    text : str
        Names of samplers: "growprune", "cgm", "pg", "local", "perturb", "recut", "rotate", "splice", "transpose",
        "reroute", "joint", "levels", "slide" (see `SAMPLERS`), each perhaps with options, as in ``pg(n_particles=2,
        final=forced)``. Values are Python literals; a bare word is a string. ``a + b`` is ``Cycle(a, b)``,
        ``0.3*a | 0.7*b`` is ``Mixture((0.3, a), (0.7, b))``, ``a | b`` is ``Mixture(a, b)``; parentheses group.

    Returns
    -------
    TreeSampler
        Or what acts between sweeps, where the text holds nothing else.

    Raises
    ------
    ValueError
        The text is no such expression, or an option is refused; the message says what, and at which character.
    TypeError
        `text` is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {text!r}")
    source = " ".join(text.split("\n"))
    try:
        tree = ast.parse(source.strip(), mode="eval")
        return _Parser(source.strip()).sampler(tree.body)
    except SyntaxError as error:
        raise ValueError(f"sampler {text!r}: {error.msg} at character {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise ValueError(f"sampler {text[:60]!r}...: nested too deeply") from None


def format_sampler(sampler):
    """The text of a sampler: ``parse_sampler(format_sampler(x)) == x``. Options at their defaults are left out.

    Parameters
    ----------
    sampler : TreeSampler or JointLeaves
        Of the classes in `SAMPLERS`, and their compositions.

    Raises
    ------
    ValueError
        Of another class.
    """
    if isinstance(sampler, Cycle):
        parts = [_bracketed(part, Mixture) for part in sampler.parts]
        return " + ".join(parts) if len(parts) > 1 else f"+{parts[0]}"
    if isinstance(sampler, Mixture):
        pairs = zip(sampler.probabilities, sampler.parts, strict=True)
        return " | ".join(f"{p!r}*{_bracketed(part, Composition)}" for p, part in pairs)
    name = next((name for name, kind in SAMPLERS.items() if type(sampler) is kind), None)
    if name is None:
        raise ValueError(f"sampler must be made of {', '.join(SAMPLERS)}, got {sampler!r}")
    options = []
    for parameter in _parameters(type(sampler)):
        value = getattr(sampler, parameter.name)
        if value != parameter.default:
            bare = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
            options.append(f"{parameter.name}={value if bare else repr(value)}")
    return f"{name}({', '.join(options)})" if options else name


def _bracketed(part, kind):
    return f"({format_sampler(part)})" if isinstance(part, kind) else format_sampler(part)


def _parameters(kind):
    return inspect.signature(kind).parameters.values()


class _Parser:
    """Samplers from the nodes of Python's own syntax tree."""

    def __init__(self, source):
        self.source = source

    def error(self, node, message):
        at = len(self.source.encode()[:node.col_offset].decode()) + 1
        part = ast.get_source_segment(self.source, node)
        return ValueError(f"sampler {self.source!r}: {message}: {part!r} at character {at}")

    def sampler(self, node):
        """The sampler that an expression stands for."""
        if isinstance(node, (ast.Name, ast.Call)):
            return self.single(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
            return self.make(node, Cycle, [self.sampler(node.operand)])
        operator = type(node.op) if isinstance(node, ast.BinOp) else None
        if operator is ast.Add:
            return self.make(node, Cycle, [self.sampler(part) for part in self.chain(node, ast.Add)])
        if operator in (ast.BitOr, ast.Mult):
            return self.make(node, Mixture, [self.weighted(part) for part in self.chain(node, ast.BitOr)])
        raise self.error(node, "names, a + b, 0.3*a | 0.7*b and parentheses make a sampler")

    def chain(self, node, operator):
        """Operands of a chain a + b + c, which Python nests to the left."""
        parts = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, operator):
            parts.append(node.right)
            node = node.left
        return [node, *reversed(parts)]

    def weighted(self, node):
        """A part of a mixture: a (probability, sampler) pair, or the sampler alone."""
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
            return self.sampler(node)
        weight = node.left.value if isinstance(node.left, ast.Constant) else None
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            raise self.error(node, "a number goes before * and a sampler behind it")
        return weight, self.sampler(node.right)

    def single(self, node):
        """One sampler by name, with its options."""
        name = node.func if isinstance(node, ast.Call) else node
        if not isinstance(name, ast.Name) or name.id not in SAMPLERS:
            raise self.error(name, f"unknown name (known are {', '.join(SAMPLERS)})")
        kind, options = SAMPLERS[name.id], {}
        known = [parameter.name for parameter in _parameters(kind)]
        if isinstance(node, ast.Call):
            for part in node.args:
                raise self.error(part, "options are written keyword=value")
            for part in node.keywords:
                if part.arg not in known:
                    raise self.error(part, f"unknown option of {name.id} (known are {', '.join(known)})")
                if part.arg in options:
                    raise self.error(part, f"option {part.arg} is given twice")
                options[part.arg] = self.value(part.value)
        return self.make(node, kind, (), options)

    def value(self, node):
        """An option's value: a literal, or a bare word for a string."""
        if isinstance(node, ast.Name):
            return node.id
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            raise self.error(node, "an option's value is a literal or a word") from None

    def make(self, node, kind, parts, options=None):
        """An object; what its class refuses, with the place."""
        try:
            return kind(*parts, **(options or {}))
        except (ValueError, TypeError) as error:
            raise self.error(node, str(error)) from None

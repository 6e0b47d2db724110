"""Completion in bash of words that hold a colon, as ids of tests do: typer's own script takes them apart."""

from __future__ import annotations

from typing import Any

# bash parts words at colons. What was typed is taken whole, and of each answer only what bash does not have
# yet is given back. `mapfile` takes answers as they are, where a plain list would have them stand for files.
BASH = r"""
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" words word before
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=("") ;; esac
    word="${words[${#words[@]}-1]}"
    mapfile -t COMPREPLY < <(
        COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) \
            %(autocomplete_var)s=complete_bash "$1" 2>/dev/null
    )
    case "$COMP_WORDBREAKS" in *:*)
        before="${word%%"${word##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    esac
    case "${COMPREPLY[0]-}" in *::) compopt -o nospace 2>/dev/null ;; esac
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""


def use_bash_script() -> None:
    """Have `--show-completion` and `--install-completion` give bash this script.

    typer has no setting for it; where a later one keeps its script elsewhere, bash completes as typer has it.
    """
    try:
        from typer import _completion_classes, _completion_shared  # noqa: PLC0415  # private: see above
    except ImportError:
        return
    classes: Any = _completion_classes
    scripts: Any = getattr(_completion_shared, "_completion_scripts", None)
    if isinstance(scripts, dict) and "bash" in scripts:
        scripts["bash"] = BASH
    if hasattr(classes, "BashComplete"):
        classes.BashComplete.source_template = BASH

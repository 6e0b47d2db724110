"""Catalogs of tests as PyTorch has them: few files, many templates, ops and dtypes; made by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.ids import canonical_id


def make_test(
    file: int, template: int, op: int | None = None, dtype: int | None = None, extra: int = 0
) -> CatalogTest:
    """A test whose id tells all that is known of it."""
    names = {"op": None if op is None else f"op{op}", "dtype": None if dtype is None else f"float{dtype}"}
    params = {key: name for key, name in names.items() if name is not None}
    params |= {"k": str(extra)} if extra else {}
    path, cls, name = f"test_{file}.py", f"Test{template % 2}", f"test_{template}"
    return CatalogTest(
        id=canonical_id(path, cls, name, params),
        node="",
        file=path,
        cls=cls,
        template=name,
        op=names["op"],
        dtype=names["dtype"],
    )


def any_tests(*, min_size: int = 0, max_size: int = 60) -> st.SearchStrategy[list[CatalogTest]]:
    """Tests with unique ids."""
    rows = st.builds(
        make_test,
        st.integers(0, 3),
        st.integers(0, 5),
        st.none() | st.integers(0, 5),
        st.none() | st.integers(0, 3),
        st.integers(0, 2),
    )
    return st.lists(rows, min_size=min_size, max_size=max_size, unique_by=lambda test: test.id)


percents = st.integers(0, 100) | st.floats(0, 100) | st.decimals(0, 100, places=2).map(float)

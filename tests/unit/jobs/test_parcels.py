"""Files over ConfigMaps."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.jobs.parcels import BOUND, MAX_CONFIG_MAPS, parcels, too_large

NAMES = st.one_of(
    st.from_regex(r"slice-[0-9]{1,4}\.json\.gz", fullmatch=True),
    st.sampled_from(
        ["file-0", "file-1", ".", "...", "..data", "a b", "ä", "conf/a.yaml", "conf/b.yaml", "x" * 300]
    ),
    st.text(min_size=1, max_size=20),
)
SIZES = st.one_of(st.integers(0, 2_000), st.integers(0, BOUND), st.just(BOUND))


@given(st.dictionaries(NAMES, SIZES, max_size=60))
def test_every_file_is_in_one_parcel_under_its_path_or_all_are_too_large(sizes: dict[str, int]) -> None:
    files = {name: bytes(size) for name, size in sizes.items()}
    if too_large(files):
        whole = sum(sizes.values()) + sum(len(name.encode()) for name in sizes)
        largest = max(size + len(name.encode()) for name, size in sizes.items())
        # First fit leaves no two parcels half empty.
        assert largest > BOUND or whole > BOUND * MAX_CONFIG_MAPS / 2
        return
    found = parcels(files)
    assert len(found) <= MAX_CONFIG_MAPS
    mounted = [(one.paths.get(key, key), content) for one in found for key, content in one.files.items()]
    assert sorted(mounted) == sorted(files.items())
    for one in found:
        assert sum(map(len, one.files.values())) <= BOUND
        assert set(one.paths) in (set(), set(one.files))
        for key in one.files:
            assert re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key)
            assert key != "."
            assert not key.startswith("..")


@given(st.permutations([(f"slice-{pod}.json.gz", bytes([pod]) * 200_000) for pod in range(12)]))
def test_the_order_of_files_changes_nothing(order: list[tuple[str, bytes]]) -> None:
    assert parcels(dict(order)) == parcels(dict(sorted(order)))


def test_files_whose_names_are_keys_are_mounted_by_them() -> None:
    (parcel,) = parcels({"slice-0.json.gz": b"a", "run.conf": b"b"})
    assert parcel.files == {"run.conf": b"b", "slice-0.json.gz": b"a"}
    assert parcel.paths == {}


def test_a_path_gets_a_key_that_no_file_has() -> None:
    (parcel,) = parcels({"conf/a.yaml": b"a", "file-0": b"b"})
    assert parcel.paths == {"file-1": "conf/a.yaml", "file-0": "file-0"}


def test_slices_of_2048_pods_need_few_config_maps() -> None:
    files = {f"slice-{pod}.json.gz": bytes(4_000) for pod in range(2_048)}
    assert len(parcels(files)) == 9


@pytest.mark.parametrize("files", [{"a": bytes(BOUND + 1)}, {f"{n}": bytes(BOUND - 4) for n in range(17)}])
def test_what_is_too_large_is_told(files: dict[str, bytes]) -> None:
    assert too_large(files)
    with pytest.raises(
        SettingsError, match=r"files of [\d,]+ bytes are more than 16 ConfigMaps hold"
    ) as caught:
        parcels(files)
    assert "fetch what is large with `source`" in str(caught.value)

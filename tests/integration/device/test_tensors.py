from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch


def on_device(*shape: int) -> torch.Tensor:
    return torch.arange(float(np.prod(shape)), device="spyre").reshape(shape)


def test_a_tensor_says_where_it_is() -> None:
    tensor = on_device(2, 3)
    assert (str(tensor.device), tensor.is_spyre) == ("spyre:0", True)  # type: ignore[attr-defined]  # generated
    assert "device='spyre:0'" in repr(tensor)


def test_a_tensor_goes_there_and_back() -> None:
    host = torch.randn(4, 5)
    assert torch.equal(host.to("spyre").cpu(), host)
    assert torch.equal(host.t().to("spyre").cpu(), host.t())


def test_a_view_shares_memory_and_an_in_place_change_shows_in_its_base() -> None:
    base = on_device(12).reshape(3, 4).clone()
    view = base.t()[1:, ::2]
    view.add_(100)
    expected = torch.arange(12.0).reshape(3, 4)
    expected.t()[1:, ::2].add_(100)
    assert torch.equal(base.cpu(), expected)
    assert view._base is base


def test_memory_that_overlaps_is_refused_as_on_the_cpu() -> None:
    base = on_device(4)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        base[1:].add_(base[:-1])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
        base[:1].expand(3).add_(1)


def test_a_conjugate_is_lazy_and_right() -> None:
    host = torch.randn(3, dtype=torch.cfloat)
    tensor = host.to("spyre")
    assert tensor.conj().is_conj()
    assert torch.equal(tensor.conj().cpu(), host.conj())
    assert torch.equal((tensor.conj() * 2).cpu(), host.conj() * 2)
    assert torch.equal(tensor.conj().imag.cpu(), host.conj().imag)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda t, c: t + c,
        lambda t, c: c + t,
        lambda t, c: t.mm(c),
        lambda t, c: torch.cat([t, c]),
        lambda t, c: torch.where(t > 0, t, c),
        lambda t, c: torch.add(t, t, out=c),
        lambda t, c: torch.add(c, c, out=t),
        lambda t, c: c.add_(t),
        lambda t, c: torch._foreach_add([t], [c]),
        lambda t, c: torch.nn.functional.linear(t, weight=c),
        lambda t, c: torch.nn.functional.layer_norm(t, (3,), c[0]),
    ],
    ids=lambda mixed: f"line-{mixed.__code__.co_firstlineno}",
)
def test_mixing_devices_raises(mixed: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at"):
        mixed(on_device(3, 3), torch.ones(3, 3))


def test_mixing_names_both_devices() -> None:
    with pytest.raises(RuntimeError, match=r"at least two devices, spyre:0 and cpu!"):
        on_device(3, 3).mm(torch.ones(3, 3))


def test_a_cpu_tensor_without_dimensions_is_let_through() -> None:
    tensor = on_device(3)
    assert (tensor + torch.tensor(2.0)).tolist() == [2.0, 3.0, 4.0]
    assert (torch.tensor(2.0) * tensor).device.type == "spyre"


def test_a_cpu_tensor_without_dimensions_is_not_written_to() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.tensor(2.0).add_(torch.ones((), device="spyre"))


def test_indices_may_be_on_the_cpu() -> None:
    tensor = on_device(4)
    index = torch.tensor([0, 2])
    assert tensor[index].tolist() == [0.0, 2.0]
    tensor[index] = 9.0
    assert tensor.tolist() == [9.0, 1.0, 9.0, 3.0]


def test_an_index_on_the_device_is_refused_by_a_cpu_tensor() -> None:
    with pytest.raises((RuntimeError, IndexError)):
        torch.arange(4.0)[torch.tensor([0, 2], device="spyre")]


def test_tolist_item_and_numpy_give_the_values() -> None:
    tensor = on_device(2, 2)
    assert tensor.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert tensor[1, 1].item() == 3.0
    assert np.array_equal(tensor.numpy(), [[0, 1], [2, 3]])
    assert np.array_equal(np.asarray(tensor), tensor.cpu().numpy())


def test_numpy_is_a_copy_and_says_no_where_grad_is_required() -> None:
    tensor = on_device(2)
    tensor.numpy()[0] = 5
    assert tensor.tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        tensor.requires_grad_().numpy()
    assert tensor.numpy(force=True).tolist() == [0.0, 1.0]


def test_numpy_of_a_cpu_tensor_still_shares_memory() -> None:
    host = torch.zeros(2)
    host.numpy()[0] = 5
    assert host.tolist() == [5.0, 0.0]


@pytest.mark.parametrize("start", [0, 3, 20])
def test_out_takes_shape_and_values_and_stays_itself(start: int) -> None:
    out = torch.empty(start, device="spyre")
    if start:
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            result = torch.cumsum(on_device(3, 4), 1, out=out)
    else:
        result = torch.cumsum(on_device(3, 4), 1, out=out)
    assert result is out
    assert torch.equal(out.cpu(), torch.arange(12.0).reshape(3, 4).cumsum(1))


def test_out_into_a_view_writes_its_base() -> None:
    base = torch.zeros(2, 3, device="spyre")
    torch.add(on_device(3), 1, out=base[1])
    assert base.tolist() == [[0, 0, 0], [1, 2, 3]]


def test_resize_keeps_what_was_there() -> None:
    tensor = on_device(4)
    tensor.resize_(2, 4)
    assert tensor.shape == (2, 4)
    assert tensor[0].tolist() == [0, 1, 2, 3]
    assert tensor.resize_(2).tolist() == [0, 1]


def test_set_takes_over_memory_of_the_device_only() -> None:
    base = on_device(6)
    tensor = torch.empty(0, device="spyre").set_(base.untyped_storage(), 2, (2, 2), (2, 1))
    tensor[0, 0] = 9
    assert base.tolist() == [0, 1, 9, 3, 4, 5]
    with pytest.raises(RuntimeError, match="devices must match"):
        torch.empty(0, device="spyre").set_(torch.ones(3).untyped_storage())
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        torch.empty(0, device="spyre").set_(base.untyped_storage(), 0, (7,), (1,))
    assert torch.ops.aten.set_(torch.empty(3, device="spyre"), base).data_ptr() == base.data_ptr()
    assert torch.ops.aten.set_(base).numel() == 0


def test_memory_lives_as_long_as_a_view_of_it() -> None:
    views = [torch.full((1000,), float(n), device="spyre")[3:5] for n in range(200)]
    filler = [torch.full((1000,), -1.0) for _ in range(200)]
    assert [view.tolist() for view in views] == [[n, n] for n in range(200)]
    assert len(filler) == 200


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])  # noqa: S301  # our own bytes
def test_a_copy_is_on_the_device_and_shares_nothing(copied: Any) -> None:
    tensor = on_device(2, 3).t()
    twin = copied(tensor)
    assert (twin.device, twin.stride()) == (tensor.device, tensor.stride())
    tensor.zero_()
    assert twin.cpu().sum() == 15


@pytest.mark.parametrize(("where", "seen"), [(None, "spyre"), ("cpu", "cpu"), ("spyre", "spyre")])
def test_a_saved_tensor_is_loaded_where_it_is_wanted(where: str | None, seen: str) -> None:
    stream = io.BytesIO()
    torch.save({"weight": on_device(2, 3)}, stream)
    stream.seek(0)
    loaded = torch.load(stream, map_location=where)["weight"]
    assert loaded.device.type == seen
    assert torch.equal(loaded.cpu(), on_device(2, 3).cpu())


def test_a_saved_cpu_tensor_is_loaded_to_the_device() -> None:
    stream = io.BytesIO()
    torch.save(torch.ones(3), stream)
    stream.seek(0)
    assert torch.load(stream, map_location="spyre").device.type == "spyre"


def test_a_module_moves_and_learns_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(18, 3))
    model = copy.deepcopy(host).to("spyre")
    batch = torch.randn(4, 1, 5, 5)
    for module, given in ((host, batch), (model, batch.to("spyre"))):
        module(given).softmax(-1).square().sum().backward()
        torch.optim.SGD(module.parameters(), lr=0.1).step()
    for ours, theirs in zip(model.parameters(), host.parameters(), strict=True):
        assert ours.grad is not None
        assert ours.grad.device.type == "spyre"
        assert torch.allclose(ours.cpu(), theirs)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_recurrent_layer_agrees_with_the_cpu_forth_and_back(kind: Any) -> None:
    torch.manual_seed(0)
    host = kind(3, 4, num_layers=2)
    model = copy.deepcopy(host).to("spyre")
    steps = torch.randn(5, 2, 3)
    host(steps)[0].sin().sum().backward()
    result = model(steps.to("spyre"))[0]
    result.sin().sum().backward()
    assert torch.allclose(result.cpu(), host(steps)[0], atol=1e-6)
    for ours, theirs in zip(model.parameters(), host.parameters(), strict=True):
        assert torch.allclose(ours.grad.cpu(), theirs.grad, atol=1e-6)


def test_pinning_memory_of_the_device_is_refused() -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        on_device(3).pin_memory()


@pytest.mark.parametrize("new", [torch.empty, torch.zeros, torch.ones, torch.rand])
def test_a_factory_makes_it_on_the_device(new: Any) -> None:
    assert new(3, device="spyre").device.type == "spyre"


@pytest.mark.parametrize(
    "to_host",
    [
        lambda t: t.new_zeros(3, device="cpu"),
        lambda t: torch.empty_like(t, device="cpu"),
        lambda t: t.to("cpu", torch.int64),
    ],
)
def test_the_cpu_is_had_where_it_is_asked_for(to_host: Any) -> None:
    assert to_host(on_device(3)).device.type == "cpu"

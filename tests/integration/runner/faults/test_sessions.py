"""Tests that end the session they run in, or want it to end, each in another way; and some that do not."""

import os
import signal

import pytest


def test_a_passes():
    pass


def test_b_stops(request):
    request.session.shouldstop = "had enough"


def test_c_fails():
    raise AssertionError("its own failure")


def test_d_fails_first(request):
    request.config.option.maxfail = 1  # as -x has it
    raise AssertionError("the first")


def test_e_exits():
    pytest.exit("gone")


def test_f_interrupts_whoever_comes_next(request):
    request.config.pluginmanager.register(Late())


def test_g_logs(caplog):
    caplog.handler.records.clear()


def test_h_passes():
    pass


class Late:
    """Sends Ctrl-C's signal once the test that set it up has ended."""

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self):
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 0)

"""Tests that do to their process what native code can do; each must cost only itself."""

import ctypes
import os
import signal
import sys
import time
import unittest


class TestFaults(unittest.TestCase):
    def test_a_passes(self):
        pass

    def test_b_segfault(self):
        print("last words")
        ctypes.string_at(0)

    def test_c_passes(self):
        pass

    def test_d_abort(self):
        os.abort()

    def test_e_exit_zero(self):
        os._exit(0)

    def test_f_killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def test_g_hang(self):
        while True:
            time.sleep(60)

    def test_h_closes_its_output(self):
        os.close(1)
        os.close(2)

    def test_i_changes_folder(self):
        os.chdir("/")

    def test_j_leaves_a_child(self):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)

    def test_k_sys_exit(self):
        sys.exit(0)

    def test_l_passes(self):
        pass

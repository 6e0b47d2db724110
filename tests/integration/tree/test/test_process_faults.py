"""Tests that do to their process what native code can do; each must cost only itself."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import pytest
import torch


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

    def test_m_ends_late(self):
        time.sleep(4)

    def test_n_takes_its_time(self):
        time.sleep(1.5)

    def test_o_dies_by_a_signal_without_a_name(self):
        os.kill(os.getpid(), signal.SIGRTMIN + 6)

    def test_p_raises_what_ctrl_c_raises(self):
        raise KeyboardInterrupt

    def test_q_ends_the_session(self):
        pytest.exit("enough")

    def test_r_forks_and_comes_back_twice(self):
        if os.fork() == 0:
            raise RuntimeError("in the fork")
        time.sleep(1)

    def test_s_leaves_a_daemon(self):
        with open(os.environ["STRAY_FILE"], "a") as stream:
            process = subprocess.Popen(["sleep", "600"], start_new_session=True)
            stream.write(f"{process.pid}\n")

    def test_t_holds_the_interpreter(self):
        libc = ctypes.PyDLL(None)
        while True:
            libc.sleep(60)

    def test_u_closes_every_file(self):
        os.closerange(0, 400)

    def test_w_deletes_the_journals(self):
        shutil.rmtree(os.environ["JOURNALS"])

    def test_x_computes_in_parallel(self):
        self.assertEqual(torch.get_num_threads(), 2)
        ones = torch.ones(512, 512)
        self.assertEqual(torch.mm(ones, ones).sum().item(), 512**3)

    def test_v_passes(self):
        pass

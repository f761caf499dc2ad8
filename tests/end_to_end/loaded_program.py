"""The program without the second that loading torch takes: a library of the same code is loaded once, and each call runs its
main function in a fork of this process."""
import ctypes
import functools
import os
import signal
import subprocess


@functools.cache
def load(library):
    main = ctypes.CDLL(library).triaccel_main
    main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    return main


class LoadedProgram(subprocess.Popen):
    """As subprocess.Popen of a program, with `executable` being its library."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                       p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others):
        main = load(executable)
        words = [os.fsencode(word) for word in args]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # what Python has changed
                    signal.signal(number, signal.SIG_DFL)
                for place, file in enumerate((p2cread, c2pwrite, errwrite)):
                    if file != -1:
                        os.dup2(file, place)
                os.closerange(3, 1024)
                if cwd is not None:
                    os.chdir(cwd)
                if env is not None:
                    os.environ.clear()
                    os.environ.update(env)
                if preexec_fn is not None:
                    preexec_fn()
                os._exit(main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)))
            finally:
                os._exit(127)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

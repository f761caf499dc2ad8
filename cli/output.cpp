#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/exit_codes.h"

namespace triaccel::cli {
namespace {

bool reader_is_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void prepare_output() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Opened for reading: writing still fails.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0) return;
}

void say(std::string_view text) {
  [[maybe_unused]] const std::size_t ignored = std::fwrite(text.data(), 1, text.size(), stderr);
}

bool output_failed() { return std::ferror(stdout) != 0; }

int finish_output(int exit_code) {
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  if ((error == 0 && !output_failed()) || reader_is_gone()) return exit_code;
  say(std::string(program_name) + ": cannot write to standard output: " +
      (error == 0 ? "some of it was lost" : std::strerror(error)) + "\n");
  return exit_code == kOk ? kStorage : exit_code;
}

}  // namespace triaccel::cli

#ifndef PHALANX_TESTS_GATEWAY_CLI_PROGRAM_H_
#define PHALANX_TESTS_GATEWAY_CLI_PROGRAM_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phalanx {

// One program, its input given, its output read to the end.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

// Of ours, or one of the system by its path.
class Program {
 public:
  Program(const std::string& name, std::vector<std::string> args,
          const std::string& input = "") {
    int in[2], out[2], err[2];
    for (int* ends : {in, out, err}) EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string path =
        name[0] == '/' ? name : absl::StrCat(PROGRAM_DIR, "/", name);
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      dup2(err[1], 2);
      execv(argv[0], argv.data());
      _exit(126);
    }
    for (const int fd : {in[0], out[1], err[1]}) close(fd);
    EXPECT_EQ(write(in[1], input.data(), input.size()),
              static_cast<ssize_t>(input.size()));
    close(in[1]);
    out_ = out[0];
    err_ = err[0];
  }

  // Waits until `text` has come on stdout.
  void WaitFor(const std::string& text) {
    char c;
    while (outcome_.out.find(text) == std::string::npos &&
           read(out_, &c, 1) == 1)
      outcome_.out.push_back(c);
  }

  void Signal(int number) { kill(pid_, number); }

  Outcome End() {
    ReadAll(out_, outcome_.out);
    ReadAll(err_, outcome_.err);
    int status = 0;
    waitpid(pid_, &status, 0);
    outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome_;
  }

 private:
  static void ReadAll(int fd, std::string& text) {
    char chunk[4096];
    for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
      text.append(chunk, n);
    close(fd);
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Outcome outcome_;
};

inline Outcome RunProgram(const std::string& name,
                          std::vector<std::string> args,
                          const std::string& input = "") {
  return Program(name, std::move(args), input).End();
}

// A line for the shell, in which $PHALANX is our program.
inline Outcome RunShell(const std::string& line,
                        const std::string& input = "") {
  return RunProgram(
      "/bin/sh",
      {"-c", absl::StrCat("PHALANX=", PROGRAM_DIR, "/phalanx; ", line)}, input);
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_CLI_PROGRAM_H_

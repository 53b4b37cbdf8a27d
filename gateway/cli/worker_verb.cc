#include "gateway/cli/worker_verb.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/cli/child_process.h"

namespace phalanx {
namespace {

constexpr WorkerVerb kVerbs[] = {{"plan", "", "plan"},
                                 {"quantize", "", "quantize"},
                                 {"bench", "kernels", "bench-kernels"},
                                 {"bench", "model", "bench-model"}};

// Words of `verb` as typed.
int WordsOf(const WorkerVerb& verb) { return *verb.what == '\0' ? 1 : 2; }

std::string WorkerProgram() { return ProgramFolder() + "/phalanx-worker"; }

std::string ReadToEnd(int fd) {
  std::string text;
  char chunk[4096];
  for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
    text.append(chunk, n);
  return text;
}

}  // namespace

std::span<const WorkerVerb> WorkerVerbs() { return kVerbs; }

const WorkerVerb* FindWorkerVerb(int argc, char** argv) {
  for (const WorkerVerb& verb : kVerbs) {
    if (argc <= WordsOf(verb) || verb.verb != std::string_view(argv[1]))
      continue;
    if (WordsOf(verb) == 1 || verb.what == std::string_view(argv[2]))
      return &verb;
  }
  return nullptr;
}

int RunWorkerVerb(const WorkerVerb& verb, int argc, char** argv) {
  std::string worker = WorkerProgram();
  std::string word = verb.worker_verb;
  std::vector<char*> args = {worker.data(), word.data()};
  args.insert(args.end(), argv + 1 + WordsOf(verb), argv + argc);
  args.push_back(nullptr);
  execv(worker.c_str(), args.data());
  std::fprintf(stderr, "phalanx %s: %s cannot be run: %s\n", verb.verb,
               worker.c_str(), std::strerror(errno));
  return 1;
}

absl::StatusOr<VerbEntry> ListWorkerFlags(const WorkerVerb& verb) {
  std::string worker = WorkerProgram();
  std::string word = verb.worker_verb;
  std::string flag = "--list-flags";
  char* const args[] = {worker.data(), word.data(), flag.data(), nullptr};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError("no pipe to phalanx-worker");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, worker.c_str(), &actions, nullptr, args, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::string text = error == 0 ? ReadToEnd(ends[0]) : "";
  close(ends[0]);
  int status = 0;
  if (error == 0) waitpid(pid, &status, 0);
  const absl::StatusOr<VerbEntry> flags = ParseVerbJson(text);
  if (error != 0 || status != 0 || !flags.ok())
    return absl::NotFoundError(
        absl::StrCat(worker, " does not list its flags"));
  return flags;
}

}  // namespace phalanx

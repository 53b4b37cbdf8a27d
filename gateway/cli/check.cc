#include "gateway/cli/check.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/clock.h"
#include "common/status.h"
#include "gateway/cli/client.h"
#include "gateway/cli/flags.h"
#include "gateway/cli/model_files.h"
#include "gateway/cli/run_file.h"
#include "gateway/cli/service_check.h"
#include "gateway/cli/standard_output.h"

namespace phalanx {
namespace {

using Outcome = CheckResult::Outcome;
using Json = nlohmann::ordered_json;

const char* OutcomeWord(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "";
}

// What the checks came to: lines as they come, or one JSON object at the end.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  void Add(const CheckResult& result) {
    if (result.outcome == Outcome::kFailed) ok_ = false;
    if (!json_) {
      const std::string line = absl::StrFormat(
          "%-11s %-8s %8s  %s", result.name, OutcomeWord(result.outcome),
          result.outcome == Outcome::kSkipped
              ? ""
              : absl::StrFormat("%.3f s", result.seconds),
          result.detail);
      Say(std::string(absl::StripTrailingAsciiWhitespace(line)));
      return;
    }
    Json& check = checks_.emplace_back();
    check["check"] = result.name;
    check["result"] = OutcomeWord(result.outcome);
    check["seconds"] = result.seconds;
    check["detail"] = result.detail;
  }

  void AddFiles(const FilesReport& files) {
    const std::pair<const char*, const std::vector<std::string>&> lists[] = {
        {"differs", files.differs},
        {"missing", files.missing},
        {"extra", files.extra},
        {"unreadable", files.unreadable}};
    Json object = {{"files", files.files},
                   {"bytes", files.read.done_bytes},
                   {"bytes_per_second", files.read.bytes_per_second()}};
    for (const auto& [word, names] : lists) {
      object[word] = names;
      if (json_) continue;
      for (const std::string& name : names)
        Say(absl::StrFormat("  %-10s %s", word, absl::CHexEscape(name)));
    }
    if (json_) checks_.back()["files"] = std::move(object);
  }

  // The exit code.
  int End() {
    if (json_) {
      const Json object = {{"ok", ok_}, {"checks", checks_}};
      Say(object.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    if (!written_.ok()) return Fail("check", written_);
    return ok_ ? 0 : 1;
  }

 private:
  void Say(const std::string& line) {
    if (written_.ok()) written_ = WriteOut(line + "\n");
  }

  const bool json_;
  bool ok_ = true;
  absl::Status written_;
  Json checks_ = Json::array();
};

// Where the service is: what was given, else what the last `serve` noted.
absl::StatusOr<CheckedService> FindService(const CheckOptions& options) {
  CheckedService service{.address = options.address,
                         .admin_address = options.admin_address,
                         .timeout_seconds = options.timeout_seconds};
  const absl::StatusOr<RunFile> run = ReadRunFile();
  if (service.address.empty()) {
    if (!run.ok()) return run.status();
    service.address = run->address;
  }
  if (service.admin_address.empty() && run.ok() &&
      run->address == service.address)
    service.admin_address = run->admin_address;
  return service;
}

// One line on a terminal, over and over; gone when it is done.
void ShowProgress(const ReadProgress& progress) {
  const double share = progress.total_bytes == 0
                           ? 1
                           : static_cast<double>(progress.done_bytes) /
                                 static_cast<double>(progress.total_bytes);
  absl::FPrintF(stderr, "\r\033[Kfiles  %3.0f%%  %s of %s, %.0f MB/s",
                share * 100, FormatByteSize(progress.done_bytes),
                FormatByteSize(progress.total_bytes),
                progress.bytes_per_second() / 1e6);
}

std::string FilesDetail(const FilesReport& files, bool made,
                        const std::string& manifest) {
  const size_t wrong = files.differs.size() + files.missing.size() +
                       files.extra.size() + files.unreadable.size();
  const std::string name = std::filesystem::path(manifest).filename().string();
  const std::string what =
      made ? absl::StrCat("wrote ", manifest, " of ", files.files, " files")
      : wrong == 0 ? absl::StrCat(files.files, " files are as ", name, " says")
                   : absl::StrCat(wrong, wrong == 1 ? " file is" : " files are",
                                  " not as ", name, " says, of ", files.files);
  return absl::StrFormat("%s; %s at %.0f MB/s", what,
                         FormatByteSize(files.read.done_bytes),
                         files.read.bytes_per_second() / 1e6);
}

void CheckModel(const CheckOptions& options, const Clock& clock,
                Report& report) {
  const std::string manifest =
      options.manifest.empty()
          ? absl::StrCat(options.model_dir, "/", kManifestName)
          : options.manifest;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const OnProgress on_progress = [&](const ReadProgress& progress) {
    if (terminal) ShowProgress(progress);
  };
  const double started = clock.now_seconds();
  const absl::StatusOr<FilesReport> files =
      options.write_manifest
          ? MakeManifest(options.model_dir, manifest, on_progress)
          : CheckFiles(options.model_dir, manifest, on_progress);
  if (terminal) std::fputs("\r\033[K", stderr);
  CheckResult result{
      .name = options.write_manifest ? "manifest" : "files",
      .outcome = files.ok() && files->ok() ? Outcome::kOk : Outcome::kFailed,
      .detail = "",
      .seconds = clock.now_seconds() - started};
  result.detail = files.ok()
                      ? FilesDetail(*files, options.write_manifest, manifest)
                      : std::string(files.status().message());
  report.Add(result);
  if (files.ok()) report.AddFiles(*files);
}

}  // namespace

void AddCheckFlags(CLI::App& verb, CheckOptions& o) {
  auto* address = verb.add_option(
      "--address", o.address,
      "The service; that of the last `phalanx serve` if neither this nor "
      "--model is given");
  auto* admin = verb.add_option(
      "--admin-address", o.admin_address,
      "Its operators' port, to see requests_running return after the cancel; "
      "that of the last `phalanx serve` if the service is that one");
  verb.add_option("--timeout", o.timeout_seconds,
                  "Seconds that each call to the service may take")
      ->check(NumberIn(0, 3600, /*above_low=*/true))
      ->capture_default_str();
  auto* model = verb.add_option(
      "--model", o.model_dir,
      "Folder of a checkpoint: the SHA-256 of every file in it against its "
      "manifest");
  verb.add_option("--manifest", o.manifest,
                  "The manifest, as sha256sum writes it; SHA256SUMS in the "
                  "folder if not given")
      ->needs(model);
  verb.add_flag("--write-manifest", o.write_manifest,
                "Make the manifest of the files that are there")
      ->needs(model)
      ->excludes(address)
      ->excludes(admin);
  verb.add_flag("--json", o.json, "One JSON object at the end, for programs");
  verb.footer(
      "A service passes if it says that it is healthy, generates 8 tokens, and "
      "ends an\nanswer that is cancelled. Files whose names begin with a dot "
      "are not looked at.\n"
      "Exit codes: 0 all is well, 1 something is not.\n"
      "Examples:\n"
      "  phalanx check\n"
      "  phalanx check --address HOST:PORT --timeout 120\n"
      "  phalanx check --model DIR\n"
      "  phalanx check --model DIR --write-manifest");
}

int RunCheck(const CheckOptions& options) {
  MonotonicClock clock;
  Report report(options.json);
  if (!options.address.empty() || !options.admin_address.empty() ||
      options.model_dir.empty()) {
    const absl::StatusOr<CheckedService> service = FindService(options);
    if (!service.ok()) {
      report.Add({.name = "service",
                  .outcome = Outcome::kFailed,
                  .detail = std::string(service.status().message()),
                  .seconds = 0});
    } else {
      CheckService(*service, clock,
                   [&](const CheckResult& result) { report.Add(result); });
    }
  }
  if (!options.model_dir.empty()) CheckModel(options, clock, report);
  return report.End();
}

}  // namespace phalanx

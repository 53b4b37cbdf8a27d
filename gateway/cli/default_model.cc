#include "gateway/cli/default_model.h"

#include <filesystem>

#include "gateway/cli/child_process.h"

namespace phalanx {

absl::StatusOr<std::string> DefaultModelDir() {
  namespace fs = std::filesystem;
  for (const char* place : {"/../share/phalanx/models/phalanx-mini",
                            "/../../../deploy/models/phalanx-mini"}) {
    const fs::path path = ProgramFolder() + place;
    if (fs::exists(path / "config.json")) return fs::canonical(path).string();
  }
  return absl::NotFoundError(
      "the small model that comes with Phalanx is not beside this program; "
      "give --model");
}

}  // namespace phalanx

#include "common/metrics/process_memory.h"

#include <fstream>
#include <string>

#include "common/units.h"

namespace phalanx {

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory;
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    int64_t* const value = key == "RssAnon"    ? &memory.anonymous
                           : key == "RssShmem" ? &memory.shared
                           : key == "RssFile"  ? &memory.file
                           : key == "VmLck"    ? &memory.locked
                                               : nullptr;
    if (value != nullptr) *value = std::stoll(line.substr(colon + 1)) * kKiB;
  }
  return memory;
}

}  // namespace phalanx

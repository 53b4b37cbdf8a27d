#include "kernels/cuda_plugin/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/version.h"

namespace phalanx {
namespace {

constexpr char kPluginFile[] = "libphalanx_cuda.so";

}  // namespace

std::string CudaPluginPath() {
  char program[4096];
  const ssize_t length =
      readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length <= 0) return kPluginFile;
  const std::string path(program, static_cast<size_t>(length));
  return path.substr(0, path.rfind('/') + 1) + kPluginFile;
}

absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path) {
  void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    // What the dynamic linker says begins with the file.
    return absl::NotFoundError(
        absl::StrCat("the CUDA plugin cannot be loaded: ", dlerror()));
  }
  const auto* table =
      static_cast<const CudaPluginTable*>(dlsym(plugin, kCudaPluginSymbol));
  if (table == nullptr) {
    dlclose(plugin);
    return absl::NotFoundError(absl::StrCat(
        path, " is not a CUDA plugin: it has no ", kCudaPluginSymbol));
  }
  if (table->abi != kCudaPluginAbi) {
    const int32_t abi = table->abi;
    dlclose(plugin);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has ABI ", abi, "; this program needs ",
                     kCudaPluginAbi, ": build both together"));
  }
  if (std::strcmp(table->version, kVersion) != 0) {
    const std::string version = table->version;
    dlclose(plugin);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of version ", version, "; this program of ",
                     kVersion, ": build both together"));
  }
  return table;
}

absl::Status CheckCudaServes(const CudaPluginTable& plugin) {
  if (std::strlen(plugin.missing_ops) == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "CUDA cannot serve a model yet; it has no ", plugin.missing_ops));
}

absl::StatusOr<std::unique_ptr<Backend>> CreateServedCudaBackend(
    const std::string& path, const CudaBackendConfig& config) {
  ASSIGN_OR_RETURN(const CudaPluginTable* plugin, LoadCudaPlugin(path));
  RETURN_IF_ERROR(CheckCudaServes(*plugin));
  return plugin->create(config);
}

}  // namespace phalanx

#ifndef PHALANX_TESTS_WORKER_CHECKPOINT_CHECKPOINT_FILES_H_
#define PHALANX_TESTS_WORKER_CHECKPOINT_CHECKPOINT_FILES_H_

// Folders and safetensors files that tests make, and readings of those that the
// repository has.

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {

// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

// One tensor to be written.
struct TensorSpec {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};
using TensorSpecs = std::map<std::string, TensorSpec>;

// A safetensors file of `json` and `data`, whatever they hold.
std::string SafetensorsBytes(const std::string& json, const std::string& data);
// A well-formed file.
std::string SafetensorsBytes(const TensorSpecs& tensors);

// All tensors of the .safetensors files of a folder.
TensorSpecs ReadTensors(const std::string& model_dir);

// The bytes of `tensor` that `slice` cuts, row-major, padding included.
std::string SliceBytes(const TensorSpec& tensor, const TensorSlice& slice);

std::string ReadBytes(const std::string& path);
nlohmann::json ReadJson(const std::string& path);

// SHA-256 in hexadecimal.
std::string Sha256(const std::string& bytes);

std::span<const std::byte> AsBytes(const std::string& text);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_CHECKPOINT_FILES_H_

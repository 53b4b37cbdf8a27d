// safetensors: the bytes as a whole file, and again as the header of one, so
// that a changed header need not guess its own length.

#include <cstring>
#include <string>

#include "common/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/tensor_names.h"

namespace phalanx {
namespace {

constexpr size_t kDataBytes = 256;  // Behind a header that stands alone.

// What is listed lies inside the file, apart, and has the bytes of its shape.
void CheckTensors(const std::vector<StoredTensor>& tensors,
                  std::span<const std::byte> file) {
  const std::byte* end = file.data();
  for (const StoredTensor& tensor : tensors) {
    CHECK(tensor.data.data() >= file.data());
    CHECK(tensor.data.data() + tensor.data.size() <= file.data() + file.size());
    CHECK(StoredTypeName(tensor.type) != "?");
    for (const int64_t size : tensor.shape) CHECK(size >= 0);
    if (!tensor.data.empty()) {
      CHECK(tensor.data.data() >= end);
      end = tensor.data.data() + tensor.data.size();
    }
  }
}

// A name is read the one way it is written.
void CheckName(const std::string& name) {
  IsSkippedTensor(name);
  const auto id = ParseTensorName(name);
  if (!id.has_value() || id->mtp) return;
  CHECK(TensorName(*id, LanguagePrefix(name)) == name);
}

void Read(std::span<const std::byte> file) {
  const auto tensors = ParseSafetensors(file, "file");
  if (!tensors.ok()) return;
  CheckTensors(*tensors, file);
  for (const StoredTensor& tensor : *tensors) CheckName(tensor.name);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read(std::as_bytes(std::span(data, size)));
  const uint64_t length = size;
  std::string wrapped(sizeof(length), '\0');
  std::memcpy(wrapped.data(), &length, sizeof(length));
  wrapped.append(reinterpret_cast<const char*>(data), size);
  wrapped.append(phalanx::kDataBytes, '\0');
  phalanx::Read(std::as_bytes(std::span(wrapped)));
  return 0;
}

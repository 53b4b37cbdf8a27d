#ifndef PHALANX_TESTS_SUPPORT_GOLDEN_FILE_H_
#define PHALANX_TESTS_SUPPORT_GOLDEN_FILE_H_

// Reads the golden data under tests/golden, for tests alone: what is missing
// or malformed is a broken checkout and ends the program, with the name.
//
//   GoldenFile file(GOLDEN_DIR "/ops/ops.safetensors");
//   GoldenTensor y = file.Get("rmsnorm0.0.y");
//   y.shape, y.values (double), y.floats(), y.ints()

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace phalanx {

// One tensor, row-major, widened to double: exact for every stored type but
// I64 beyond 2^53.
struct GoldenTensor {
  std::string dtype;  // As stored: "F32", "BF16", "I32", ...
  std::vector<int64_t> shape;
  std::vector<double> values;

  int64_t elements() const { return static_cast<int64_t>(values.size()); }
  std::vector<float> floats() const;
  std::vector<int32_t> ints() const;
};

// A safetensors file, read whole. Types: F64 F32 BF16 I64 I32 U32 U16 U8.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path);

  bool Has(const std::string& name) const { return entries_.contains(name); }
  GoldenTensor Get(const std::string& name) const;
  std::vector<std::string> names() const;  // Sorted.
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t begin = 0;  // Bytes into data_.
    int64_t end = 0;
  };

  std::string path_;
  std::string data_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// A JSON file.
nlohmann::json ReadGoldenJson(const std::string& path);

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_GOLDEN_FILE_H_

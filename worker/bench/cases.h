#ifndef PHALANX_WORKER_BENCH_CASES_H_
#define PHALANX_WORKER_BENCH_CASES_H_

// What `bench model` measures, from its flags and the model alone. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/checkpoint/model_config.h"

namespace phalanx {

enum class CaseKind : uint8_t { kDecode, kPrefill };
const char* CaseKindName(CaseKind kind);  // "decode", "prefill".

// Steps of one kind and size.
struct BenchCase {
  CaseKind kind = CaseKind::kDecode;
  int64_t rows = 1;     // Sequences that decode, or tokens of one's prefill.
  int64_t context = 0;  // Tokens in the caches before.

  bool operator==(const BenchCase&) const = default;
};

// "decode 8 at 4096".
std::string CaseName(const BenchCase& c);

// Steps of a decode sample at most; each moves its sequences by a token.
inline constexpr int64_t kMostDecodeSteps = 128;

// KV blocks of one sequence, and of all of a case.
int64_t BlocksOfSequence(const BenchCase& c);
int64_t BlocksOf(const BenchCase& c);

struct CaseFlags {
  std::vector<int64_t> batches;
  std::vector<int64_t> prompts;
  std::vector<int64_t> contexts;
  bool decode = true;
  bool prefill = true;
};

struct CaseList {
  std::vector<BenchCase> cases;
  std::vector<std::string> left_out;  // A case and why, each.
};

// Every size at every context, but those that the model's context or
// `kv_limit_bytes` of keys and values, at `block_bytes` a block, do not hold.
CaseList CasesOf(const CaseFlags& flags, const ModelConfig& config,
                 int64_t block_bytes, int64_t kv_limit_bytes);

// The most sequences, tokens of one, and KV blocks of any; what a rank that
// runs all of them must have room for.
struct CaseNeeds {
  int64_t sequences = 1;
  int64_t tokens = 1;
  int64_t blocks = 1;
};
CaseNeeds NeedsOf(const std::vector<BenchCase>& cases);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_CASES_H_

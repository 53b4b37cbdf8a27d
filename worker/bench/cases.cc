#include "worker/bench/cases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/units.h"
#include "kernels/sequences.h"

namespace phalanx {
namespace {

int64_t SequencesOf(const BenchCase& c) {
  return c.kind == CaseKind::kDecode ? c.rows : 1;
}

// Positions that one sequence comes to.
int64_t TokensOf(const BenchCase& c) {
  // Decode begins behind one token at least.
  return c.kind == CaseKind::kDecode ? c.context + 1 + kMostDecodeSteps
                                     : c.context + c.rows;
}

}  // namespace

const char* CaseKindName(CaseKind kind) {
  return kind == CaseKind::kDecode ? "decode" : "prefill";
}

std::string CaseName(const BenchCase& c) {
  return absl::StrCat(CaseKindName(c.kind), " ", c.rows, " at ", c.context);
}

int64_t BlocksOfSequence(const BenchCase& c) {
  return CeilDivide(TokensOf(c), kKvBlockTokens);
}

int64_t BlocksOf(const BenchCase& c) {
  return SequencesOf(c) * BlocksOfSequence(c);
}

CaseList CasesOf(const CaseFlags& flags, const ModelConfig& config,
                 int64_t block_bytes, int64_t kv_limit_bytes) {
  CaseList list;
  const auto add = [&](const BenchCase& c) {
    if (TokensOf(c) > config.max_position_embeddings) {
      list.left_out.push_back(absl::StrCat(CaseName(c), ": needs ", TokensOf(c),
                                           " positions; the model has ",
                                           config.max_position_embeddings));
    } else if (BlocksOf(c) * block_bytes > kv_limit_bytes) {
      list.left_out.push_back(absl::StrCat(
          CaseName(c), ": needs ", FormatByteSize(BlocksOf(c) * block_bytes),
          " of keys and values; there is room for ",
          FormatByteSize(kv_limit_bytes)));
    } else {
      list.cases.push_back(c);
    }
  };
  for (const int64_t context : flags.contexts) {
    if (flags.decode)
      for (const int64_t batch : flags.batches)
        add({CaseKind::kDecode, batch, context});
    if (flags.prefill)
      for (const int64_t tokens : flags.prompts)
        add({CaseKind::kPrefill, tokens, context});
  }
  return list;
}

CaseNeeds NeedsOf(const std::vector<BenchCase>& cases) {
  CaseNeeds needs;
  for (const BenchCase& c : cases) {
    needs.sequences = std::max(needs.sequences, SequencesOf(c));
    needs.tokens = std::max(needs.tokens, TokensOf(c));
    needs.blocks = std::max(needs.blocks, BlocksOf(c));
  }
  return needs;
}

}  // namespace phalanx

#include "worker/scheduler/step_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {
namespace {

// The bytes, all little-endian:
//   u32 magic, u32 version, u32 kind, u64 epoch, i64 step, u32 sequences,
//   u32 block copies, u32 state restores, u32 state saves
//   per sequence: i32 slot, i64 past, u32 rows, u32 blocks, u32 logit rows,
//                 i32 token ids [rows], i32 block table [blocks]
//   per copy, in the order of the counts: i32 from, i32 to
static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x53584850;  // "PHXS"
constexpr uint32_t kVersion = 2;
constexpr int64_t kHeaderBytes = 4 + 4 + 4 + 8 + 8 + 4 * 4;
constexpr int64_t kSequenceHeaderBytes = 4 + 8 + 4 + 4 + 4;
constexpr int64_t kCopyBytes = 4 + 4;

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutAll(const std::vector<int32_t>& values) {
    bytes_.append(reinterpret_cast<const char*>(values.data()),
                  values.size() * sizeof(int32_t));
  }
  void Reserve(int64_t bytes) { bytes_.reserve(bytes); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}

  int64_t bytes_left() const { return static_cast<int64_t>(rest_.size()); }

  // Past the end: zero, and bytes are missing from then on.
  template <typename T>
  T Get() {
    T value{};
    Copy(&value, sizeof(value));
    return value;
  }
  // The caller has checked `count` against a limit.
  std::vector<int32_t> GetAll(int64_t count) {
    std::vector<int32_t> values;
    if (count * static_cast<int64_t>(sizeof(int32_t)) > bytes_left()) {
      missing_ = true;
      return values;
    }
    values.resize(count);
    Copy(values.data(), count * sizeof(int32_t));
    return values;
  }
  bool missing() const { return missing_; }

 private:
  void Copy(void* to, size_t bytes) {
    if (bytes > rest_.size()) missing_ = true;
    if (missing_ || bytes == 0) return;
    std::memcpy(to, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
  }

  absl::string_view rest_;
  bool missing_ = false;
};

absl::Status Bad(absl::string_view what, int64_t value, int64_t low,
                 int64_t high) {
  return absl::InvalidArgumentError(absl::StrCat(
      "step plan: ", what, " is ", value, "; must be ", low, "..", high));
}

absl::Status InRange(absl::string_view what, int64_t value, int64_t low,
                     int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(what, value, low, high);
}

absl::Status AllInRange(absl::string_view what,
                        const std::vector<int32_t>& values, int64_t count) {
  for (const int32_t value : values)
    RETURN_IF_ERROR(InRange(what, value, 0, count - 1));
  return absl::OkStatus();
}

absl::Status CheckComplete(const Reader& reader) {
  if (!reader.missing()) return absl::OkStatus();
  return absl::InvalidArgumentError("step plan: it ends too early");
}

// One sequence of at most `tokens_left` rows.
absl::StatusOr<PlannedSequence> ReadSequence(Reader& reader,
                                             int64_t tokens_left,
                                             int64_t logit_rows_left,
                                             const StepPlanLimits& limits) {
  PlannedSequence sequence;
  sequence.state_slot = reader.Get<int32_t>();
  sequence.past = reader.Get<int64_t>();
  const int64_t rows = reader.Get<uint32_t>();
  const int64_t blocks = reader.Get<uint32_t>();
  sequence.logit_rows = reader.Get<uint32_t>();
  RETURN_IF_ERROR(CheckComplete(reader));
  RETURN_IF_ERROR(
      InRange("state_slot", sequence.state_slot, 0, limits.state_slots - 1));
  RETURN_IF_ERROR(InRange("rows", rows, 1, tokens_left));
  RETURN_IF_ERROR(
      InRange("past", sequence.past, 0, limits.max_model_len - rows));
  const int64_t blocks_needed =
      CeilDivide(sequence.past + rows, limits.block_tokens);
  RETURN_IF_ERROR(InRange("blocks", blocks, blocks_needed, blocks_needed));
  RETURN_IF_ERROR(InRange("logit_rows", sequence.logit_rows, 0,
                          std::min(rows, logit_rows_left)));

  sequence.token_ids = reader.GetAll(rows);
  sequence.block_table = reader.GetAll(blocks);
  RETURN_IF_ERROR(CheckComplete(reader));
  RETURN_IF_ERROR(
      AllInRange("token id", sequence.token_ids, limits.vocab_size));
  RETURN_IF_ERROR(AllInRange("block", sequence.block_table, limits.kv_blocks));
  return sequence;
}

absl::StatusOr<std::vector<CacheCopy>> ReadCopies(Reader& reader, int64_t count,
                                                  absl::string_view what,
                                                  int64_t places) {
  std::vector<CacheCopy> copies;
  copies.reserve(std::min(count, reader.bytes_left() / kCopyBytes));
  for (int64_t i = 0; i < count; ++i) {
    CacheCopy copy;
    copy.from = reader.Get<int32_t>();
    copy.to = reader.Get<int32_t>();
    RETURN_IF_ERROR(CheckComplete(reader));
    RETURN_IF_ERROR(InRange(what, copy.from, 0, places - 1));
    RETURN_IF_ERROR(InRange(what, copy.to, 0, places - 1));
    copies.push_back(copy);
  }
  return copies;
}

absl::Status CheckSlotsDistinct(const StepPlan& plan) {
  std::vector<int32_t> slots;
  slots.reserve(plan.sequences.size());
  for (const PlannedSequence& sequence : plan.sequences)
    slots.push_back(sequence.state_slot);
  std::sort(slots.begin(), slots.end());
  const auto twice = std::adjacent_find(slots.begin(), slots.end());
  if (twice == slots.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "step plan: state_slot ", *twice, " belongs to two sequences"));
}

int64_t CountCopies(const StepPlan& plan) {
  return static_cast<int64_t>(plan.block_copies.size() +
                              plan.state_restores.size() +
                              plan.state_saves.size());
}

}  // namespace

int64_t StepPlan::token_count() const {
  int64_t count = 0;
  for (const PlannedSequence& sequence : sequences)
    count += static_cast<int64_t>(sequence.token_ids.size());
  return count;
}

int64_t StepPlan::logits_count() const {
  int64_t count = 0;
  for (const PlannedSequence& sequence : sequences)
    count += sequence.logit_rows;
  return count;
}

int64_t MaxEncodedBytes(const StepPlanLimits& limits) {
  const int64_t blocks_per_sequence =
      CeilDivide(limits.max_model_len, limits.block_tokens);
  return kHeaderBytes + limits.max_tokens * 4 +
         limits.max_sequences *
             (kSequenceHeaderBytes + blocks_per_sequence * 4) +
         3 * limits.max_sequences * kCopyBytes;
}

std::string Encode(const StepPlan& plan) {
  Writer writer;
  int64_t bytes = kHeaderBytes + kCopyBytes * CountCopies(plan);
  for (const PlannedSequence& sequence : plan.sequences)
    bytes += kSequenceHeaderBytes +
             4 * static_cast<int64_t>(sequence.token_ids.size() +
                                      sequence.block_table.size());
  writer.Reserve(bytes);
  writer.Put(kMagic);
  writer.Put(kVersion);
  writer.Put(static_cast<uint32_t>(plan.kind));
  writer.Put(plan.epoch);
  writer.Put(plan.step);
  writer.Put(static_cast<uint32_t>(plan.sequences.size()));
  writer.Put(static_cast<uint32_t>(plan.block_copies.size()));
  writer.Put(static_cast<uint32_t>(plan.state_restores.size()));
  writer.Put(static_cast<uint32_t>(plan.state_saves.size()));
  for (const PlannedSequence& sequence : plan.sequences) {
    writer.Put(sequence.state_slot);
    writer.Put(sequence.past);
    writer.Put(static_cast<uint32_t>(sequence.token_ids.size()));
    writer.Put(static_cast<uint32_t>(sequence.block_table.size()));
    writer.Put(static_cast<uint32_t>(sequence.logit_rows));
    writer.PutAll(sequence.token_ids);
    writer.PutAll(sequence.block_table);
  }
  for (const auto* copies :
       {&plan.block_copies, &plan.state_restores, &plan.state_saves}) {
    for (const CacheCopy& copy : *copies) {
      writer.Put(copy.from);
      writer.Put(copy.to);
    }
  }
  return writer.Take();
}

absl::StatusOr<StepPlan> Decode(absl::string_view bytes,
                                const StepPlanLimits& limits) {
  Reader reader(bytes);
  StepPlan plan;
  if (reader.Get<uint32_t>() != kMagic)
    return absl::InvalidArgumentError("step plan: these bytes are none");
  RETURN_IF_ERROR(
      InRange("version", reader.Get<uint32_t>(), kVersion, kVersion));
  const int64_t kind = reader.Get<uint32_t>();
  RETURN_IF_ERROR(InRange("kind", kind, static_cast<int64_t>(StepKind::kRun),
                          static_cast<int64_t>(StepKind::kStop)));
  plan.kind = static_cast<StepKind>(kind);
  plan.epoch = reader.Get<uint64_t>();
  plan.step = reader.Get<int64_t>();
  const int64_t count = reader.Get<uint32_t>();
  const int64_t block_copies = reader.Get<uint32_t>();
  const int64_t state_restores = reader.Get<uint32_t>();
  const int64_t state_saves = reader.Get<uint32_t>();
  RETURN_IF_ERROR(CheckComplete(reader));
  if (plan.step < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("step plan: step is ", plan.step, "; must be at least 0"));
  const bool stop = plan.kind == StepKind::kStop;
  RETURN_IF_ERROR(InRange("sequences", count, stop ? 0 : 1,
                          stop ? 0 : limits.max_sequences));
  for (const auto& [what, copies] :
       {std::pair{"block copies", block_copies},
        std::pair{"state restores", state_restores},
        std::pair{"state saves", state_saves}})
    RETURN_IF_ERROR(InRange(what, copies, 0, stop ? 0 : limits.max_sequences));

  int64_t tokens_left = limits.max_tokens;
  int64_t logit_rows_left = limits.max_logit_rows;
  plan.sequences.reserve(
      std::min(count, reader.bytes_left() / kSequenceHeaderBytes));
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(
        PlannedSequence sequence,
        ReadSequence(reader, tokens_left, logit_rows_left, limits));
    tokens_left -= static_cast<int64_t>(sequence.token_ids.size());
    logit_rows_left -= sequence.logit_rows;
    plan.sequences.push_back(std::move(sequence));
  }
  ASSIGN_OR_RETURN(
      plan.block_copies,
      ReadCopies(reader, block_copies, "copied block", limits.kv_blocks));
  ASSIGN_OR_RETURN(
      plan.state_restores,
      ReadCopies(reader, state_restores, "restored slot", limits.state_slots));
  ASSIGN_OR_RETURN(
      plan.state_saves,
      ReadCopies(reader, state_saves, "saved slot", limits.state_slots));
  if (reader.bytes_left() != 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "step plan: ", reader.bytes_left(), " bytes follow its end"));
  RETURN_IF_ERROR(CheckSlotsDistinct(plan));
  return plan;
}

}  // namespace phalanx

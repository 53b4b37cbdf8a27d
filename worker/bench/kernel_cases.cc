#include "worker/bench/kernel_cases.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/sequences.h"
#include "worker/bench/operands.h"

namespace phalanx {
namespace {

// Of the 35B.
constexpr int64_t kHidden = 2048;
constexpr int64_t kOutputs = 4096;
constexpr int64_t kExpertWidth = 512;
constexpr int64_t kExpertsPerToken = 8;
constexpr int64_t kQueryHeads = 16;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 256;
constexpr int64_t kGdnKeyHeads = 16;
constexpr int64_t kGdnValueHeads = 32;
constexpr int64_t kGdnDim = 128;
constexpr int64_t kConvChannels = 8192;
constexpr int64_t kConvWidth = 4;

constexpr int64_t kRows[] = {1, 8, 32, 512};
constexpr int64_t kMostRows = 512;
constexpr int64_t kContext = 4096;
constexpr int64_t kBatch = 16;
// Ways in which tokens choose experts, taken in turns.
constexpr int kRoutings = 8;
// Of a state's element and row: decayed, read, written and read.
constexpr double kDeltaFlops = 7;

constexpr WeightFormat kFormats[] = {WeightFormat::kBf16, WeightFormat::kInt8,
                                     WeightFormat::kInt4};

// Adds to `left_out` what is not there; any other error stands.
absl::Status Excuse(const absl::Status& status, const std::string& what,
                    std::vector<std::string>& left_out) {
  if (!absl::IsUnimplemented(status)) return status;
  left_out.push_back(absl::StrCat(what, ": ", status.message()));
  return absl::OkStatus();
}

// Makes the cases of one group; they share its operands.
class Maker {
 public:
  Maker(const KernelSizes& sizes, Backend& backend)
      : sizes_(sizes),
        operands_(std::make_shared<Operands>(backend)),
        ops_(backend.ops()),
        act_(backend.activation_dtype()) {}

  std::vector<KernelCase> Take() { return std::move(cases_); }

  absl::Status Products(WeightFormat format) {
    WeightShape shape{.rows = kOutputs, .cols = kHidden, .format = format};
    const int64_t count = CeilDivide(sizes_.set_bytes, shape.share_bytes());
    ASSIGN_OR_RETURN(const Bank bank, MakeBank(shape, count));
    ASSIGN_OR_RETURN(const Tensor x,
                     operands_->Floats(act_, kMostRows, kHidden));
    ASSIGN_OR_RETURN(const Tensor y,
                     operands_->Zeros(DType::kF32, kMostRows, kOutputs));
    for (const int64_t rows : kRows)
      Add({.name = "product",
           .format = WeightFormatName(format),
           .rows = rows,
           .bytes = static_cast<double>(shape.share_bytes()),
           .flops = 2.0 * static_cast<double>(rows * kOutputs * kHidden),
           .peak = PeakFor(format)},
          [=, &ops = ops_, keep = operands_](int64_t i) {
            ops.MatMul(Rows(x, 0, rows), (*bank)[i % bank->size()],
                       Rows(y, 0, rows));
          });
    return absl::OkStatus();
  }

  absl::Status Experts(WeightFormat format) {
    const WeightShape up_shape{.count = sizes_.experts,
                               .rows = 2 * kExpertWidth,
                               .cols = kHidden,
                               .layout = WeightLayout::kGateUp,
                               .format = format};
    const WeightShape down_shape{.count = sizes_.experts,
                                 .rows = kHidden,
                                 .cols = kExpertWidth,
                                 .format = format,
                                 .slices = kContractionSlices};
    WeightShape shared_shape = down_shape;
    shared_shape.count = 1;
    ExpertOperands o;
    ASSIGN_OR_RETURN(o.up, MakeBank(up_shape));
    ASSIGN_OR_RETURN(o.down, MakeBank(down_shape));
    ASSIGN_OR_RETURN(o.shared_down, MakeBank(shared_shape));
    ASSIGN_OR_RETURN(o.x, operands_->Floats(act_, kMostRows, kHidden));
    ASSIGN_OR_RETURN(
        o.hidden,
        operands_->Zeros(act_, kMostRows * kExpertsPerToken, kExpertWidth));
    ASSIGN_OR_RETURN(o.shared,
                     operands_->Floats(act_, kMostRows, kExpertWidth));
    ASSIGN_OR_RETURN(o.gate, operands_->Floats(act_, kMostRows, 1));
    ASSIGN_OR_RETURN(o.y, operands_->Zeros(DType::kF32, kMostRows, kHidden));
    const double expert_bytes =
        static_cast<double>(up_shape.share_bytes() + down_shape.share_bytes()) /
        static_cast<double>(sizes_.experts);
    for (const int64_t rows : kRows)
      RETURN_IF_ERROR(ExpertsOf(rows, format, expert_bytes, o));
    return absl::OkStatus();
  }

  absl::Status Attention() {
    const int64_t context_bytes =
        kContext * kKvHeads * kHeadDim * 2 * ElementBytes(act_);
    const int64_t sequences =
        std::max(kBatch, CeilDivide(sizes_.set_bytes, context_bytes));
    const int64_t blocks_each = (kContext + kMostRows) / kKvBlockTokens;
    const int64_t blocks = sequences * blocks_each;
    ASSIGN_OR_RETURN(
        const Tensor keys,
        operands_->Floats(act_, blocks, kKvHeads, kKvBlockTokens, kHeadDim));
    ASSIGN_OR_RETURN(
        const Tensor values,
        operands_->Floats(act_, blocks, kKvHeads, kKvBlockTokens, kHeadDim));
    ASSIGN_OR_RETURN(const Tensor q,
                     operands_->Floats(act_, kMostRows, kQueryHeads, kHeadDim));
    ASSIGN_OR_RETURN(const Tensor y, operands_->Zeros(DType::kF32, kMostRows,
                                                      kQueryHeads, kHeadDim));
    for (const int64_t rows : {int64_t{1}, kMostRows}) {
      auto all = std::make_shared<std::vector<Sequences>>();
      for (int64_t s = 0; s < sequences; ++s) {
        ASSIGN_OR_RETURN(Sequences one,
                         OneSequence(rows, kContext, s, blocks_each));
        all->push_back(one);
      }
      // Each row sees those before it in the step.
      const double positions = static_cast<double>(rows) *
                               (kContext + static_cast<double>(rows + 1) / 2);
      Add({.name = "attention at 4096",
           .format = "",
           .rows = rows,
           .bytes = static_cast<double>(context_bytes),
           .flops = 4 * positions * kQueryHeads * kHeadDim,
           .peak = Peak::kBf16},
          [=, &ops = ops_, keep = operands_](int64_t i) {
            ops.PagedAttention(Rows(q, 0, rows), keys, values,
                               (*all)[i % all->size()], 1.0f / 16,
                               Rows(y, 0, rows));
          });
    }
    return absl::OkStatus();
  }

  absl::Status Delta() {
    const int64_t state_bytes = kGdnValueHeads * kGdnDim * kGdnDim * 4;
    const int64_t slots = RoundUp(
        std::max(kBatch, CeilDivide(sizes_.set_bytes, state_bytes)), kBatch);
    ASSIGN_OR_RETURN(const Tensor state,
                     operands_->Floats(DType::kF32, slots, kGdnValueHeads,
                                       kGdnDim, kGdnDim));
    ASSIGN_OR_RETURN(const Tensor qk, operands_->Floats(DType::kF32, kMostRows,
                                                        kGdnKeyHeads, kGdnDim));
    ops_.L2Norm(qk, 1.0f, qk);
    ASSIGN_OR_RETURN(
        const Tensor v,
        operands_->Floats(DType::kF32, kMostRows, kGdnValueHeads, kGdnDim));
    ASSIGN_OR_RETURN(const Tensor g, DecayLogs());
    ASSIGN_OR_RETURN(const Tensor beta,
                     operands_->Zeros(DType::kF32, kMostRows, kGdnValueHeads));
    ASSIGN_OR_RETURN(const Tensor y, operands_->Zeros(DType::kF32, kMostRows,
                                                      kGdnValueHeads, kGdnDim));
    for (const int64_t rows : {kBatch, kMostRows}) {
      const bool decode = rows == kBatch;
      auto all = std::make_shared<std::vector<Sequences>>();
      for (int64_t s = 0; s < slots; s += decode ? kBatch : 1) {
        ASSIGN_OR_RETURN(Sequences some,
                         decode ? Decoding(s) : OneSequence(rows, 1, s, 0));
        all->push_back(some);
      }
      Add({.name = decode ? "delta rule, decode" : "delta rule, prefill",
           .format = "",
           .rows = rows,
           .bytes = static_cast<double>((decode ? kBatch : 1) * state_bytes),
           .flops = kDeltaFlops * static_cast<double>(rows * state_bytes / 4),
           .peak = Peak::kF32},
          [=, &ops = ops_, keep = operands_](int64_t i) {
            ops.GatedDelta(Rows(qk, 0, rows), Rows(qk, 0, rows),
                           Rows(v, 0, rows), Rows(g, 0, rows),
                           Rows(beta, 0, rows), (*all)[i % all->size()], state,
                           Rows(y, 0, rows));
          });
    }
    return absl::OkStatus();
  }

  absl::Status Conv() {
    ASSIGN_OR_RETURN(const Tensor x,
                     operands_->Floats(act_, kMostRows, kConvChannels));
    ASSIGN_OR_RETURN(const Tensor w,
                     operands_->Floats(DType::kF32, kConvChannels, kConvWidth));
    ASSIGN_OR_RETURN(
        const Tensor state,
        operands_->Floats(act_, kBatch, kConvWidth - 1, kConvChannels));
    ASSIGN_OR_RETURN(const Tensor y,
                     operands_->Zeros(DType::kF32, kMostRows, kConvChannels));
    for (const int64_t rows : {kBatch, kMostRows}) {
      ASSIGN_OR_RETURN(
          const Sequences sequences,
          rows == kBatch ? Decoding(0) : OneSequence(rows, 1, 0, 0));
      Add({.name = "convolution",
           .format = "",
           .rows = rows,
           .bytes =
               static_cast<double>(rows * kConvChannels * ElementBytes(act_)),
           .flops =
               2.0 * static_cast<double>(rows * kConvChannels * kConvWidth),
           .peak = Peak::kF32},
          [=, &ops = ops_, keep = operands_](int64_t) {
            ops.ConvSilu(Rows(x, 0, rows), w, sequences, state,
                         Rows(y, 0, rows));
          });
    }
    return absl::OkStatus();
  }

  absl::Status Norms() {
    ASSIGN_OR_RETURN(const Tensor x,
                     operands_->Floats(act_, kMostRows, kHidden));
    ASSIGN_OR_RETURN(const Tensor w, operands_->Floats(DType::kF32, kHidden));
    ASSIGN_OR_RETURN(const Tensor y,
                     operands_->Zeros(act_, kMostRows, kHidden));
    for (const int64_t rows : {int64_t{1}, kMostRows})
      Add({.name = "norm",
           .format = "",
           .rows = rows,
           .bytes = static_cast<double>(rows * kHidden * ElementBytes(act_)),
           .flops = 0,
           .peak = Peak::kNone},
          [=, &ops = ops_, keep = operands_](int64_t) {
            ops.RmsNorm(Rows(x, 0, rows), w, 1e-6f, Rows(y, 0, rows));
          });
    return absl::OkStatus();
  }

 private:
  using Bank = std::shared_ptr<const std::vector<PackedWeight>>;
  struct ExpertOperands {
    Bank up, down, shared_down;
    Tensor x, hidden, shared, gate, y;
  };

  absl::StatusOr<Bank> MakeBank(const WeightShape& shape, int64_t count = 1) {
    ASSIGN_OR_RETURN(std::vector<PackedWeight> weights,
                     operands_->Weights(shape, count));
    return std::make_shared<const std::vector<PackedWeight>>(
        std::move(weights));
  }

  void Add(KernelWork work, std::function<void(int64_t)> call) {
    cases_.push_back(
        {.work = std::move(work), .call = std::move(call), .begin = nullptr});
  }

  // Some ways in which `rows` tokens choose, and how many experts get one.
  absl::Status ExpertsOf(int64_t rows, WeightFormat format, double expert_bytes,
                         const ExpertOperands& o) {
    const int64_t E = sizes_.experts;
    ASSIGN_OR_RETURN(const Tensor logits,
                     operands_->Floats(DType::kF32, kRoutings * kMostRows, E));
    auto routings = std::make_shared<std::vector<Routing>>();
    double touched = 0;
    for (int i = 0; i < kRoutings; ++i) {
      Routing r;
      ASSIGN_OR_RETURN(r.expert,
                       operands_->Zeros(DType::kI32, rows, kExpertsPerToken));
      ASSIGN_OR_RETURN(r.weight,
                       operands_->Zeros(DType::kF32, rows, kExpertsPerToken));
      ASSIGN_OR_RETURN(r.offsets, operands_->Zeros(DType::kI32, E + 1));
      ASSIGN_OR_RETURN(r.order,
                       operands_->Zeros(DType::kI32, rows * kExpertsPerToken));
      ops_.Route(Rows(logits, i * kMostRows, rows), true, r);
      std::vector<int32_t> offsets(E + 1);
      operands_->backend().Download(r.offsets, offsets.data());
      for (int64_t e = 0; e < E; ++e)
        if (offsets[e + 1] > offsets[e]) touched += 1.0 / kRoutings;
      routings->push_back(r);
    }
    Add({.name = "experts",
         .format = WeightFormatName(format),
         .rows = rows,
         .bytes = touched * expert_bytes,
         .flops = 6.0 * static_cast<double>(rows * kExpertsPerToken *
                                            kExpertWidth * kHidden),
         .peak = PeakFor(format)},
        [=, &ops = ops_, keep = operands_](int64_t i) {
          const Routing& r = (*routings)[i % routings->size()];
          const Tensor hidden = Rows(o.hidden, 0, rows * kExpertsPerToken);
          ops.ExpertsGateUp(Rows(o.x, 0, rows), o.up->front(), r, hidden);
          ops.ExpertsDown(hidden, o.down->front(), r, Rows(o.shared, 0, rows),
                          o.shared_down->front(), Rows(o.gate, 0, rows),
                          kContractionSlices, Rows(o.y, 0, rows));
        });
    return absl::OkStatus();
  }

  // `rows` rows behind `past` tokens, whose blocks are number index of so many.
  absl::StatusOr<Sequences> OneSequence(int64_t rows, int64_t past,
                                        int64_t index, int64_t blocks_each) {
    Sequences s;
    ASSIGN_OR_RETURN(s.first_row,
                     operands_->Ints({0, static_cast<int32_t>(rows)}));
    ASSIGN_OR_RETURN(s.past, operands_->Ints({static_cast<int32_t>(past)}));
    ASSIGN_OR_RETURN(s.state_slot,
                     operands_->Ints({static_cast<int32_t>(index)}));
    std::vector<int32_t> table(std::max<int64_t>(1, blocks_each));
    std::iota(table.begin(), table.end(),
              static_cast<int32_t>(index * blocks_each));
    ASSIGN_OR_RETURN(const Tensor list, operands_->Ints(table));
    s.block_table = MakeTensor(list.data, DType::kI32, 1, list.dims[0]);
    return s;
  }

  // A row each, of slots from `first` on.
  absl::StatusOr<Sequences> Decoding(int64_t first) {
    std::vector<int32_t> rows(kBatch + 1), slots(kBatch);
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(slots.begin(), slots.end(), static_cast<int32_t>(first));
    Sequences s;
    ASSIGN_OR_RETURN(s.first_row, operands_->Ints(rows));
    ASSIGN_OR_RETURN(s.past, operands_->Ints(std::vector<int32_t>(kBatch, 1)));
    ASSIGN_OR_RETURN(s.state_slot, operands_->Ints(slots));
    ASSIGN_OR_RETURN(s.block_table,
                     operands_->Zeros(DType::kI32, kBatch, int64_t{1}));
    return s;
  }

  // Small ones: states neither die nor grow.
  absl::StatusOr<Tensor> DecayLogs() {
    ASSIGN_OR_RETURN(const Tensor g,
                     operands_->Zeros(DType::kF32, kMostRows, kGdnValueHeads));
    const std::vector<float> logs(g.elements(), -0.01f);
    operands_->backend().Upload(logs.data(), g);
    return g;
  }

  const KernelSizes sizes_;
  const std::shared_ptr<Operands> operands_;
  Ops& ops_;
  const DType act_;
  std::vector<KernelCase> cases_;
};

}  // namespace

absl::StatusOr<std::vector<KernelCase>> MakeKernelCases(
    const std::string& group, const KernelSizes& sizes, Backend& backend,
    std::vector<std::string>& left_out) {
  Maker maker(sizes, backend);
  if (group == "product" || group == "experts") {
    for (const WeightFormat format : kFormats)
      RETURN_IF_ERROR(Excuse(
          group == "product" ? maker.Products(format) : maker.Experts(format),
          absl::StrCat(group, " ", WeightFormatName(format)), left_out));
  } else if (group == "attention") {
    RETURN_IF_ERROR(maker.Attention());
  } else if (group == "delta") {
    RETURN_IF_ERROR(maker.Delta());
  } else if (group == "conv") {
    RETURN_IF_ERROR(maker.Conv());
  } else {
    RETURN_IF_ERROR(maker.Norms());
  }
  RETURN_IF_ERROR(backend.Synchronize());
  return maker.Take();
}

}  // namespace phalanx

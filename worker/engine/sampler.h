#ifndef PHALANX_WORKER_ENGINE_SAMPLER_H_
#define PHALANX_WORKER_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/adjusted_logits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Logits -> one token. A pure function of the logits and the SampleSpec: same
// bits whatever the batch, the machine's instruction set, or what was sampled
// before (design.md section 3, rule 6). The memory it works in is taken once.
//
// Life: one per engine, used by the engine thread alone.
//
// The logits that a draw sees are AdjustedLogits: after penalties, biases and
// masks. With temperature 0 (and below 2^-126, which counts as 0): the largest
// of them, ties to the lower id. Else
//   weight[i] = exp((logit[i] - largest) / temperature)
// over the candidates left by, in this order,
//   top_k: the k largest logits, ties to the lower id;
//   top_p: the fewest largest ones whose weights sum to top_p of the whole;
//   min_p: weights of at least min_p times the largest one;
// and the first candidate, in id order, whose running sum of weights exceeds
// u times their total; u in [0, 1) comes from Philox, its counter (position,
// choice_index), its key the seed. Every sum runs in id order, in double.
//
// Log-probabilities are those of the raw logits, whatever the draw saw.
//
// Cost: a few passes over the vocabulary, never a sort of it.
class Sampler {
 public:
  // vocab_size >= 1.
  explicit Sampler(int64_t vocab_size);

  // What one takes, in bytes.
  static int64_t Bytes(int64_t vocab_size);

  // logits: [vocab_size] raw logits in vocabulary order. A logit of minus
  // infinity is never drawn and never listed; as a `given` id it has a
  // log-probability of minus infinity. spec: as ValidateRequest allows.
  // INTERNAL/NON_FINITE_LOGITS if a logit is NaN or plus infinity, all are
  // minus infinity, or, where something is drawn, all that masks leave.
  absl::StatusOr<Token> Sample(std::span<const float> logits,
                               const SampleSpec& spec);

 private:
  struct Candidate {
    int32_t id;
    float logit;
    float weight;
  };
  struct Sum {
    double weight = 0;
    int64_t count = 0;
  };

  absl::StatusOr<int32_t> Choose(std::span<const float> logits, int32_t best,
                                 const SampleSpec& spec);
  // Fills candidates_, best first, with the n largest logits (ties: lower id)
  // that are not minus infinity; fewer if there are fewer.
  void SelectLargest(std::span<const float> logits, int64_t n);
  int32_t Draw(std::span<const float> logits, float largest,
               const SampleSpec& spec);
  // Fills weights_ and running_; weights below min_p count as 0. Returns their
  // sum.
  double WeighAll(std::span<const float> logits, float largest,
                  float temperature, float min_p);
  int32_t DrawFromAll(double target) const;
  void Weigh(float largest, float temperature);
  void GatherHopeful(std::span<const float> logits, double total,
                     double target);
  void KeepTopP(double target);
  // Of the candidates with at least this logit, in id order.
  Sum SumFrom(float logit) const;
  int64_t TiesNeeded(float last, double target) const;
  int32_t DrawFromCandidates(double u) const;

  const int64_t vocab_size_;
  AdjustedLogits adjusted_;
  std::vector<float> weights_;   // [vocab_size], of WeighAll.
  std::vector<double> running_;  // Their sum before each block, and in all.
  std::vector<Candidate> candidates_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_SAMPLER_H_

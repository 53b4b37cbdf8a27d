#ifndef PHALANX_GATEWAY_API_RESUME_TOKEN_H_
#define PHALANX_GATEWAY_API_RESUME_TOKEN_H_

#include <google/protobuf/message.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

inline constexpr int kChannels = 3;  // inference.proto's, from CONTENT on.
using TextBytes = std::array<int64_t, kChannels>;

// How much of one choice its client was sent.
struct SentPart {
  int64_t tokens = 0;      // Ids, or log-probabilities of as many.
  std::string ids_digest;  // IdsDigest of these; empty where tokens is 0.
  TextBytes text_bytes = {};

  bool operator==(const SentPart&) const = default;
};

// Where a stream stands: all that another gateway needs, beside the request
// itself, to send what is missing.
struct ResumePoint {
  std::string request_digest;  // RequestDigest of the original.
  std::string numerics_id;     // Of the group that computed what was sent.
  uint64_t seed = 0;
  bool prompt_sent = false;  // The event Prompt.
  std::vector<SentPart> choices;

  bool operator==(const ResumePoint&) const = default;
};

// 32 bytes of what is asked: equal for equal messages, whoever serializes them.
// The request's id, which a client may change, is to be cleared before.
std::string RequestDigest(const google::protobuf::Message& request);

// A few bytes that tell lists of ids apart; empty for an empty one.
std::string IdsDigest(std::span<const int32_t> ids);

// Seals points into tokens and opens them again: text of the base64url
// alphabet, at most 1 KiB, that only a holder of the key can make. Const after
// it is made; any thread.
class ResumeKey {
 public:
  // Of this process alone.
  static ResumeKey Random();
  // kMinKeyBytes..kMaxKeyBytes of them.
  static ResumeKey Of(std::string bytes);
  // The bytes of a file, which all replicas share. INVALID_ARGUMENT or
  // NOT_FOUND names the file, and its size where that is no key's.
  static absl::StatusOr<ResumeKey> Load(const std::string& path);

  static constexpr int64_t kMinKeyBytes = 32;
  static constexpr int64_t kMaxKeyBytes = 4096;
  static constexpr int kMaxChoices = 16;
  static constexpr size_t kMaxTokenBytes = 1024;

  // At most kMaxChoices choices. A numerics id of more than 128 bytes, which no
  // worker of ours has, is left out.
  std::string Seal(const ResumePoint& point) const;
  // INVALID_ARGUMENT/BAD_RESUME_TOKEN for whatever Seal did not make.
  absl::StatusOr<ResumePoint> Open(absl::string_view token) const;

 private:
  explicit ResumeKey(std::string key) : key_(std::move(key)) {}
  std::string MacOf(absl::string_view bytes) const;

  std::string key_;
};

// INVALID_ARGUMENT/BAD_RESUME_TOKEN.
absl::Status BadResumeToken(absl::string_view why);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_RESUME_TOKEN_H_

#include "gateway/api/resume_token.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"

namespace phalanx {
namespace {

constexpr char kVersion = 1;
constexpr size_t kDigestBytes = 32;
constexpr size_t kIdsDigestBytes = 8;
constexpr size_t kMaxNumericsBytes = 128;

std::string Sha256(absl::string_view bytes) {
  std::string digest(kDigestBytes, '\0');
  unsigned size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(),
                   reinterpret_cast<unsigned char*>(digest.data()), &size,
                   EVP_sha256(), nullptr) == 1);
  return digest;
}

// Numbers are written seven bits at a time, the lowest first, a set top bit
// meaning that more follow.
void PutNumber(uint64_t number, std::string& out) {
  for (; number >= 0x80; number >>= 7)
    out.push_back(static_cast<char>(number | 0x80));
  out.push_back(static_cast<char>(number));
}

// Takes pieces off the front of bytes that are ours, or else anything.
class PointReader {
 public:
  explicit PointReader(absl::string_view bytes) : rest_(bytes) {}

  std::string Bytes(size_t count) {
    if (count > rest_.size()) return Fail();
    std::string taken(rest_.substr(0, count));
    rest_.remove_prefix(count);
    return taken;
  }
  uint64_t Number() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      number |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return number;
    }
    Fail();
    return 0;
  }
  // Of something that is counted.
  int64_t Count() { return static_cast<int64_t>(Number() >> 1); }

  bool all_read() const { return !failed_ && rest_.empty(); }

 private:
  std::string Fail() {
    failed_ = true;
    rest_ = {};
    return "";
  }

  absl::string_view rest_;
  bool failed_ = false;
};

void PutCount(int64_t count, std::string& out) {
  PutNumber(static_cast<uint64_t>(count) << 1, out);
}

std::string Encode(const ResumePoint& point) {
  CHECK(point.request_digest.size() == kDigestBytes);
  CHECK(point.choices.size() <= ResumeKey::kMaxChoices);
  std::string out(1, kVersion);
  out += point.request_digest;
  const bool named = point.numerics_id.size() <= kMaxNumericsBytes;
  PutNumber(named ? point.numerics_id.size() : 0, out);
  if (named) out += point.numerics_id;
  PutNumber(point.seed, out);
  PutNumber(point.prompt_sent ? 1 : 0, out);
  PutNumber(point.choices.size(), out);
  for (const SentPart& choice : point.choices) {
    PutCount(choice.tokens, out);
    if (choice.tokens > 0) {
      CHECK(choice.ids_digest.size() == kIdsDigestBytes);
      out += choice.ids_digest;
    }
    for (const int64_t bytes : choice.text_bytes) PutCount(bytes, out);
  }
  return out;
}

bool Decode(absl::string_view bytes, ResumePoint& point) {
  PointReader reader(bytes);
  if (reader.Bytes(1) != std::string(1, kVersion)) return false;
  point.request_digest = reader.Bytes(kDigestBytes);
  const uint64_t numerics_bytes = reader.Number();
  if (numerics_bytes > kMaxNumericsBytes) return false;
  point.numerics_id = reader.Bytes(numerics_bytes);
  point.seed = reader.Number();
  point.prompt_sent = reader.Number() != 0;
  const uint64_t choices = reader.Number();
  if (choices > ResumeKey::kMaxChoices) return false;
  point.choices.resize(choices);
  for (SentPart& choice : point.choices) {
    choice.tokens = reader.Count();
    if (choice.tokens > 0) choice.ids_digest = reader.Bytes(kIdsDigestBytes);
    for (int64_t& text_bytes : choice.text_bytes) text_bytes = reader.Count();
  }
  return reader.all_read();
}

}  // namespace

std::string RequestDigest(const google::protobuf::Message& request) {
  std::string bytes = request.GetDescriptor()->full_name();
  bytes.push_back('\0');
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    request.SerializeToCodedStream(&out);
  }
  return Sha256(bytes);
}

std::string IdsDigest(std::span<const int32_t> ids) {
  if (ids.empty()) return "";
  std::string bytes;
  bytes.reserve(ids.size() * sizeof(int32_t));
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<uint32_t>(id) >> shift));
  return Sha256(bytes).substr(0, kIdsDigestBytes);
}

ResumeKey ResumeKey::Of(std::string bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  CHECK(size >= kMinKeyBytes && size <= kMaxKeyBytes);
  return ResumeKey(std::move(bytes));
}

ResumeKey ResumeKey::Random() {
  std::string key(kMinKeyBytes, '\0');
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(key.data()),
                   static_cast<int>(key.size())) == 1);
  return ResumeKey(std::move(key));
}

absl::StatusOr<ResumeKey> ResumeKey::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string key(kMaxKeyBytes + 1, '\0');
  if (!file.is_open() || (file.read(key.data(), kMaxKeyBytes + 1), file.bad()))
    return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  key.resize(file.gcount());
  if (static_cast<int64_t>(key.size()) < kMinKeyBytes ||
      static_cast<int64_t>(key.size()) > kMaxKeyBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        path, " holds ",
        static_cast<int64_t>(key.size()) > kMaxKeyBytes ? "more than " : "",
        std::min<int64_t>(key.size(), kMaxKeyBytes), " bytes; must hold ",
        kMinKeyBytes, "..", kMaxKeyBytes));
  return ResumeKey(std::move(key));
}

std::string ResumeKey::MacOf(absl::string_view bytes) const {
  std::string mac(kDigestBytes, '\0');
  unsigned size = 0;
  CHECK(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr);
  return mac;
}

std::string ResumeKey::Seal(const ResumePoint& point) const {
  const std::string bytes = Encode(point);
  return absl::WebSafeBase64Escape(bytes + MacOf(bytes));
}

absl::StatusOr<ResumePoint> ResumeKey::Open(absl::string_view token) const {
  if (token.size() > kMaxTokenBytes)
    return BadResumeToken(
        absl::StrCat("has ", token.size(), " bytes; at most ", kMaxTokenBytes));
  std::string sealed;
  if (!absl::WebSafeBase64Unescape(token, &sealed) ||
      sealed.size() < kDigestBytes)
    return BadResumeToken("is no token");
  const absl::string_view bytes =
      absl::string_view(sealed).substr(0, sealed.size() - kDigestBytes);
  const std::string mac = MacOf(bytes);
  if (CRYPTO_memcmp(mac.data(), sealed.data() + bytes.size(), kDigestBytes) !=
      0)
    return BadResumeToken(
        "was made by a gateway with another --resume-key-file"
        ", or was changed");
  ResumePoint point;
  if (!Decode(bytes, point))
    return BadResumeToken("was made by a gateway of another version");
  return point;
}

absl::Status BadResumeToken(absl::string_view why) {
  return ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_RESUME_TOKEN",
                       absl::StrCat("token ", why), {{"field", "token"}});
}

}  // namespace phalanx

// Bytes as a token: the case itself, and the case with a seal that is right, so
// that what is behind the seal is read too. What opens is what is sealed again.

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

#include "absl/strings/escaping.h"
#include "common/check.h"
#include "gateway/api/resume_token.h"
#include "tests/fuzz/fuzz_target.h"

namespace phalanx {
namespace {

void Read(absl::string_view bytes) {
  const std::string secret(32, 'k');
  static const ResumeKey& key = *new ResumeKey(ResumeKey::Of(secret));
  CHECK(!key.Open(bytes).ok());

  std::string mac(32, '\0');
  unsigned size = 0;
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr);
  const auto point =
      key.Open(absl::WebSafeBase64Escape(std::string(bytes) + mac));
  if (!point.ok()) return;
  const auto again = key.Open(key.Seal(*point));
  CHECK(again.ok());
  CHECK(*again == *point);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

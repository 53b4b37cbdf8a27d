// JSON that clients send along with a chat: tools, arguments, variables of the
// template. What is read is written as JSON that reads the same.

#include <string>

#include "common/check.h"
#include "gateway/chat/jinja/json.h"
#include "tests/fuzz/fuzz_target.h"

namespace phalanx::jinja {
namespace {

// An escape takes six bytes for one; a number up to this many.
constexpr size_t kGrowth = 32;

void Read(absl::string_view text) {
  const auto value = ParseJson(text);
  if (!value.ok()) {
    CHECK(absl::IsInvalidArgument(value.status()));
    return;
  }
  const size_t most = kGrowth * (text.size() + 1);
  const auto plain = DumpJson(*value, {}, most);
  JsonStyle style;
  style.ensure_ascii = true;
  const auto ascii = DumpJson(*value, style, most);
  CHECK(plain.ok() && ascii.ok());
  for (const auto& dump : {*plain, *ascii}) {
    const auto again = ParseJson(dump);
    CHECK(again.ok());
    CHECK(*DumpJson(*again, {}, most) == *plain);
  }
}

}  // namespace
}  // namespace phalanx::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::jinja::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

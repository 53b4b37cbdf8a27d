// Chat templates: parsed, and rendered within small bounds.

#include "common/check.h"
#include "gateway/chat/jinja/json.h"
#include "gateway/chat/jinja/template.h"
#include "tests/fuzz/fuzz_target.h"

namespace phalanx::jinja {
namespace {

constexpr RenderOptions kBounds = {.max_text_bytes = 16 << 10,
                                   .max_steps = 20'000,
                                   .now_unix_seconds = 1'764'460'800};

// What chat templates are given, cut short.
constexpr char kContext[] =
    R"({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "4", "tool_calls": [{"function":
            {"name": "add", "arguments": {"a": 2, "b": [1.5, null, true]}}}]}],
      "tools": [{"name": "add"}], "enable_thinking": false,
      "add_generation_prompt": true, "bos_token": "<s>", "x": -7})";

void Read(absl::string_view source) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) {
    CHECK(absl::IsInvalidArgument(parsed.status()));
    return;
  }
  static const Value& context = *new Value(ParseJson(kContext).value());
  const auto text = (*parsed)->Render(context.mapping(), kBounds);
  if (text.ok())
    CHECK(text->size() <= kBounds.max_text_bytes);
  else
    CHECK(absl::IsInvalidArgument(text.status()));
}

}  // namespace
}  // namespace phalanx::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::jinja::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

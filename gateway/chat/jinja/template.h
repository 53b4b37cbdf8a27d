#ifndef PHALANX_GATEWAY_CHAT_JINJA_TEMPLATE_H_
#define PHALANX_GATEWAY_CHAT_JINJA_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/ast.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Longest template text that is parsed.
inline constexpr size_t kMaxTemplateBytes = size_t{512} * 1024;

struct RenderOptions {
  // Longest output, and longest text in between.
  size_t max_text_bytes = size_t{64} << 20;
  // Nodes evaluated, items and (32 at a time) bytes copied. Bounds time to
  // about a second and what the values of one render can hold to about a GiB.
  int64_t max_steps = 20'000'000;
  // What strftime_now() calls now, UTC; absent: there is no such function.
  std::optional<int64_t> now_unix_seconds;
};

// A parsed template, with the manner of the environment that chat templates
// are written for: jinja2 3.1's immutable sandbox, trim_blocks, lstrip_blocks,
// loop controls, {% generation %} as a plain block, tojson without HTML
// escapes, raise_exception and strftime_now.
//
// Const after Parse: any number of threads may render at once.
class Template {
 public:
  // Errors: INVALID_ARGUMENT with the line, for a template that does not parse
  // or is longer than kMaxTemplateBytes.
  static absl::StatusOr<std::unique_ptr<Template>> Parse(
      absl::string_view source);

  // The output with `context` as the global variables. Errors, all
  // INVALID_ARGUMENT: "template line 3: ..." for what goes wrong or passes a
  // bound, and the bare message of raise_exception.
  absl::StatusOr<std::string> Render(const Mapping& context,
                                     const RenderOptions& options) const;

 private:
  explicit Template(Block body) : body_(std::move(body)) {}

  Block body_;
};

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_TEMPLATE_H_

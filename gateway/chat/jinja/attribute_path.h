#ifndef PHALANX_GATEWAY_CHAT_JINJA_ATTRIBUTE_PATH_H_
#define PHALANX_GATEWAY_CHAT_JINJA_ATTRIBUTE_PATH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// What filters call an attribute: "function.name", "0.x", 3, or None for the
// item itself.
class AttributePath {
 public:
  // Errors: INVALID_ARGUMENT unless a string, an integer or None.
  static absl::StatusOr<AttributePath> Parse(const Value& attribute);
  // "a,b.c": several of them.
  static absl::StatusOr<std::vector<AttributePath>> ParseList(
      const Value& attribute);

  // The value at the path; undefined if it is not there.
  // Errors: INVALID_ARGUMENT if something on the way is not there.
  absl::StatusOr<Value> Get(Interpreter& interpreter, const Value& item) const;

 private:
  std::vector<Value> keys_;
};

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_ATTRIBUTE_PATH_H_

#ifndef PHALANX_GATEWAY_CHAT_JINJA_VALUE_H_
#define PHALANX_GATEWAY_CHAT_JINJA_VALUE_H_

// What a template computes with: Python's values, as far as a template can
// meet them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx::jinja {

// Python's integers have no end; 128 bits hold every literal met in practice.
// Arithmetic that leaves them is an error.
__extension__ typedef __int128 Integer;

// Lists in lists in lists: the deepest a value may be, so that printing,
// comparing and freeing it cannot overflow the stack.
inline constexpr int kMaxValueDepth = 200;

class Value;
struct Mapping;
struct MacroDefinition;
struct Scope;
struct LoopState;

// Items of a list, tuple, view (dict.items() and kin) or generator.
struct Sequence {
  std::vector<Value> items;
  std::string label;  // A view's or generator's name when printed.
  size_t taken = 0;   // Generators only: items already consumed.
};

// What range() gives.
struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

  int64_t size() const;
};

// The one mutable thing a template has (below: it holds a Mapping).
struct Namespace;

// A function: built in, a method bound to its object, a macro or a loop.
struct Callable;

// A value. Copies are cheap: payloads are immutable after construction
// (Namespace, Callable state and a generator's position apart) and shared by
// all copies of the value, which is why they are held by shared_ptr. One
// render at a time on one thread; constants of a parsed template are never
// mutable ones and may be shared by renders on many threads.
class Value {
 public:
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,  // Only what str.encode() gives; can be printed.
    kList,
    kTuple,
    kView,
    kGenerator,
    kRange,
    kMapping,
    kNamespace,
    kCallable,
    kLoop,
  };

  // None.
  Value() : kind_(Kind::kNone) {}

  // An absent value; `message` is the error that using it gives.
  static Value Undefined(std::string message);
  static Value Bool(bool value);
  static Value Int(Integer value);
  static Value Float(double value);
  static Value String(std::string text);
  // Text already escaped for HTML: adding other text to it escapes that.
  static Value Markup(std::string text);
  static Value Bytes(std::string text);
  static Value FromRange(Range range);
  static Value FromNamespace(std::shared_ptr<Namespace> space);
  static Value FromCallable(std::shared_ptr<Callable> callable);
  static Value FromLoop(std::shared_ptr<LoopState> loop);
  // Errors: INVALID_ARGUMENT when nested deeper than kMaxValueDepth.
  static absl::StatusOr<Value> List(std::vector<Value> items);
  static absl::StatusOr<Value> Tuple(std::vector<Value> items);
  static absl::StatusOr<Value> View(std::string label,
                                    std::vector<Value> items);
  static absl::StatusOr<Value> Generator(std::string label,
                                         std::vector<Value> items);
  static absl::StatusOr<Value> FromMapping(std::shared_ptr<Mapping> mapping);

  Kind kind() const { return kind_; }
  bool undefined() const { return kind_ == Kind::kUndefined; }
  bool none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return markup_; }
  // Bool counts as an integer, as in Python.
  bool is_integer() const {
    return kind_ == Kind::kInt || kind_ == Kind::kBool;
  }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }
  bool is_list_or_tuple() const {
    return kind_ == Kind::kList || kind_ == Kind::kTuple;
  }
  bool is_mapping() const { return kind_ == Kind::kMapping; }
  // 0 for what holds no other value.
  int depth() const { return depth_; }

  // Each requires the kind it names.
  bool boolean() const { return number_.integer != 0; }
  Integer integer() const { return number_.integer; }
  double floating() const { return number_.floating; }
  double as_double() const;  // Any number.
  const std::string& text() const;
  Sequence& sequence() const;
  const Range& range() const;
  const Mapping& mapping() const;
  Namespace& space() const;
  Callable& callable() const;
  LoopState& loop() const;
  // Undefined: the error that using it gives.
  const std::string& undefined_message() const;
  // Is it the same object (Python's `is`)?
  bool SameAs(const Value& other) const;

  // Python's bool().
  bool Truthy() const;
  // type(value).__name__, for error messages.
  absl::string_view type_name() const;

 private:
  static absl::StatusOr<Value> FromItems(Kind kind, std::string label,
                                         std::vector<Value> items);

  Kind kind_;
  bool markup_ = false;
  int16_t depth_ = 0;
  union {
    Integer integer = 0;
    double floating;
  } number_;
  std::shared_ptr<void> payload_;
};

// A dict: insertion order, keys compared as Python does (1, 1.0 and True are
// one key). Filled by Set while it is being made, then read only.
struct Mapping {
  std::vector<std::pair<Value, Value>> entries;
  absl::flat_hash_map<std::string, size_t> index;  // KeyOf(key) -> entry.

  // Errors: INVALID_ARGUMENT if `key` cannot be one (a list or a dict).
  absl::Status Set(Value key, Value value);
  // nullptr if absent or if `key` cannot be a key.
  const Value* Find(const Value& key) const;
  const Value* Find(absl::string_view name) const;
};

struct Namespace {
  Mapping attributes;
};

// What identifies a value as a key; nullopt if it cannot be one (a list, a
// dict, or a tuple whose key would be longer than kMaxKeyBytes).
std::optional<std::string> KeyOf(const Value& value);
inline constexpr size_t kMaxKeyBytes = size_t{1} << 16;

// A function value. Which fields count depends on `what`.
struct Callable {
  enum class What {
    kGlobal,    // name
    kMethod,    // name of self's method
    kMacro,     // name, definition, scope
    kLoopTool,  // loop.cycle or loop.changed: name, self is the loop
    kCycler,    // items, position
    kJoiner,    // items = {separator}, position
  };
  What what = What::kGlobal;
  std::string name;
  Value self;
  const MacroDefinition* definition = nullptr;  // Part of the template.
  Scope* scope = nullptr;  // Where it was defined; lives as long as the render.
  std::vector<Value> items;
  size_t position = 0;
};

// Python's ==. Values of different types differ. Shared parts make a small
// value a large tree, so each pair looked at takes 1 (and a long string more)
// from `budget`; once that is below 0 the answer is false and means nothing.
bool Equal(const Value& a, const Value& b, int64_t& budget);

// Python's <. Errors: INVALID_ARGUMENT for types without an order.
absl::StatusOr<bool> Less(const Value& a, const Value& b, int64_t& budget);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_VALUE_H_

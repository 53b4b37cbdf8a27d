#ifndef PHALANX_GATEWAY_CHAT_JINJA_INTERPRETER_H_
#define PHALANX_GATEWAY_CHAT_JINJA_INTERPRETER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/arguments.h"
#include "gateway/chat/jinja/ast.h"
#include "gateway/chat/jinja/template.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Expressions in expressions in macros ...: the deepest that evaluation goes
// on the machine's stack (some 300 bytes to 1 KiB a level).
inline constexpr int kMaxRenderDepth = 1200;
// What the sandbox allows of range().
inline constexpr int64_t kMaxRange = 100'000;
// What a macro or namespace costs, since it is kept until the render's end.
inline constexpr int64_t kKeptSteps = 20;

// Names and their values; the names are views of the template or the context.
struct Scope {
  Scope* parent = nullptr;
  absl::flat_hash_map<absl::string_view, Value> names;
  bool captured = false;  // By a macro, which may outlive the block.
};

// What `loop` stands for. Emptied when its loop ends.
struct LoopState {
  const Statement* statement = nullptr;
  Scope* scope = nullptr;  // Around the loop.
  std::vector<Value> items;
  size_t index0 = 0;
  size_t length = 0;
  int depth0 = 0;
  std::optional<Value> last_changed;
};

// One render: walks the tree. Made by Template::Render, used once, on one
// thread. The methods are spread over files by subject; filters, tests and
// methods of values are functions that get the interpreter for its bounds.
class Interpreter {
 public:
  // Both outlive the interpreter.
  Interpreter(const Mapping& context, const RenderOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  absl::StatusOr<std::string> Run(const Block& body);

  // Bounds (interpreter.cc).

  // Takes `count` steps. Errors: INVALID_ARGUMENT when there are none left.
  absl::Status Charge(int64_t count);
  // The same for a text that is about to be made. Also: longer than allowed.
  absl::Status ChargeText(size_t bytes);
  // The same for a value that is about to be looked up or stored as a key.
  absl::Status ChargeKey(const Value& key);
  size_t max_text_bytes() const { return options_.max_text_bytes; }
  std::optional<int64_t> now_unix_seconds() const {
    return options_.now_unix_seconds;
  }

  // Values (interpreter.cc).

  // str(value).
  absl::StatusOr<std::string> Text(const Value& value);
  // A string or markup like `model`, charged for.
  absl::StatusOr<Value> NewText(std::string text, bool markup = false);
  // What a loop over the value sees. A generator is used up by it.
  absl::StatusOr<std::vector<Value>> Iterate(const Value& value);
  // Number of items without using them up; an error for what has no len().
  absl::StatusOr<int64_t> Length(const Value& value);
  absl::StatusOr<bool> Equals(const Value& a, const Value& b);
  absl::StatusOr<bool> LessThan(const Value& a, const Value& b);
  // `needle in haystack`.
  absl::StatusOr<bool> Contains(const Value& haystack, const Value& needle);
  // value.name and value[key], in the order that jinja tries things.
  absl::StatusOr<Value> Attribute(const Value& value, absl::string_view name);
  absl::StatusOr<Value> Item(const Value& value, const Value& key);
  Value NewNamespace();
  // a op b, for + - * / // % **.
  absl::StatusOr<Value> Arithmetic(absl::string_view op, const Value& a,
                                   const Value& b);

  // Calls (calls.cc).

  absl::StatusOr<Value> Call(const Value& callee, const Arguments& arguments);
  // By name, for map('upper') and select('odd').
  absl::StatusOr<Value> Filter(absl::string_view name, const Value& value,
                               const Arguments& arguments);
  absl::StatusOr<bool> Test(absl::string_view name, const Value& value,
                            const Arguments& arguments);
  // raise_exception: ends the render with just this message.
  absl::Status Raise(std::string message);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class ScopeGuard;

  // Expressions (expressions.cc).
  absl::StatusOr<Value> Evaluate(const Expression& node);
  absl::StatusOr<Value> EvaluateNode(const Expression& node);
  // A name seen from the present scope; undefined if it means nothing.
  Value Lookup(const std::string& name) const;
  absl::StatusOr<std::vector<Value>> EvaluateAll(
      const std::vector<ExpressionPtr>& nodes);
  absl::StatusOr<Value> EvaluateDict(const Expression& node);
  absl::StatusOr<Value> EvaluateSlice(const Expression& node);
  absl::StatusOr<Value> EvaluateConcat(const Expression& node);
  absl::StatusOr<Value> EvaluateCompare(const Expression& node);
  absl::StatusOr<Value> EvaluateConditional(const Expression& node);
  absl::StatusOr<Value> EvaluateFilter(const Expression& node);
  // The filters of a block, around its text.
  absl::StatusOr<Value> EvaluateBlockFilters(const Expression& node,
                                             Value text);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& nodes);
  absl::StatusOr<bool> Compare(absl::string_view op, const Value& a,
                               const Value& b);
  absl::StatusOr<Value> Slice(const Value& value, const Value& start,
                              const Value& stop, const Value& step);

  // Arithmetic (operators.cc).
  absl::StatusOr<Value> Add(const Value& a, const Value& b);
  absl::StatusOr<Value> Multiply(const Value& a, const Value& b);
  absl::StatusOr<Value> Repeat(const Value& value, const Value& times);
  absl::StatusOr<Value> Negate(const Value& value, bool negative);

  // Statements (statements.cc).
  absl::StatusOr<Flow> Execute(const Block& block);
  absl::StatusOr<Flow> ExecuteStatement(const Statement& statement);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement);
  absl::StatusOr<Flow> ExecuteFor(const Statement& statement);
  absl::StatusOr<Flow> ExecuteWith(const Statement& statement);
  absl::Status ExecuteCallBlock(const Statement& statement);
  absl::Status ExecuteFiltered(const Statement& statement);
  // One loop over `value` (loop() calls it again with other values).
  absl::StatusOr<Flow> Loop(const Statement& statement, const Value& value,
                            Scope* scope, int depth0);
  absl::StatusOr<Flow> LoopItems(const Statement& statement, const Value& loop);
  absl::StatusOr<std::vector<Value>> FilterItems(const Statement& statement,
                                                 std::vector<Value> items,
                                                 Scope* scope);
  absl::Status Assign(const Target& target, const Value& value);
  absl::Status Write(absl::string_view text);
  absl::Status WriteValue(const Value& value);
  // What `block` writes, in a scope of its own.
  absl::StatusOr<std::string> Capture(const Block& block, Scope& scope);

  // Calls (calls.cc).
  absl::StatusOr<Value> CallGlobal(const Callable& callable,
                                   const Arguments& arguments);
  absl::StatusOr<Value> CallMacro(const Callable& callable,
                                  const Arguments& arguments);
  absl::Status BindParameters(const MacroDefinition& macro,
                              const Arguments& arguments, Scope& scope);
  absl::Status BindExtra(const MacroDefinition& macro,
                         const Arguments& arguments, Scope& scope);
  absl::StatusOr<Value> CallLoop(LoopState& loop, const Arguments& arguments);
  absl::StatusOr<Value> CallLoopTool(const Callable& callable,
                                     const Arguments& arguments);
  Value MakeMacro(const MacroDefinition& definition);
  absl::StatusOr<Value> LoopAttribute(const Value& value,
                                      absl::string_view name);

  const RenderOptions& options_;
  int64_t steps_left_;
  int depth_ = 0;
  int line_ = 0;         // Of what is being evaluated, for errors.
  bool raised_ = false;  // The error is raise_exception's.
  std::string* out_ = nullptr;
  Scope globals_;
  Scope* scope_ = &globals_;
  // Scopes that a macro holds on to.
  std::vector<std::unique_ptr<Scope>> captured_;
  // All namespaces made. They can hold each other in a circle, so they are
  // emptied at the end rather than left to their counts; hence the sharing.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_INTERPRETER_H_

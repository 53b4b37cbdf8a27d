// How statements are executed.

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {

// Enters a new scope for the time of a C++ block. A scope that a macro holds
// on to is kept until the end of the render.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter),
        before_(interpreter.scope_),
        scope_(std::make_unique<Scope>()) {
    scope_->parent = parent;
    interpreter_.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    interpreter_.scope_ = before_;
    if (scope_->captured) interpreter_.captured_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

  Scope& scope() { return *scope_; }

 private:
  Interpreter& interpreter_;
  Scope* before_;
  std::unique_ptr<Scope> scope_;
};

absl::Status Interpreter::Write(absl::string_view text) {
  if (text.size() > max_text_bytes() ||
      out_->size() > max_text_bytes() - text.size()) {
    return TooLong(max_text_bytes());
  }
  out_->append(text.data(), text.size());
  return ChargeText(text.size());
}

absl::Status Interpreter::WriteValue(const Value& value) {
  const size_t before = out_->size();
  RETURN_IF_ERROR(AppendText(value, max_text_bytes(), *out_));
  return ChargeText(out_->size() - before);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Block& block) {
  for (const StatementPtr& statement : block) {
    line_ = statement->line;
    RETURN_IF_ERROR(Charge(1));
    if (depth_ >= kMaxRenderDepth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "evaluation is nested deeper than ", kMaxRenderDepth, " levels"));
    }
    ++depth_;
    const absl::StatusOr<Flow> flow = ExecuteStatement(*statement);
    --depth_;
    if (!flow.ok() || *flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteStatement(
    const Statement& statement) {
  switch (statement.kind) {
    case Statement::Kind::kText:
      RETURN_IF_ERROR(Write(statement.text));
      return Flow::kNormal;
    case Statement::Kind::kPrint: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
      RETURN_IF_ERROR(WriteValue(value));
      return Flow::kNormal;
    }
    case Statement::Kind::kIf:
      return ExecuteIf(statement);
    case Statement::Kind::kFor:
      return ExecuteFor(statement);
    case Statement::Kind::kSet: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
      line_ = statement.line;
      RETURN_IF_ERROR(Assign(statement.target, value));
      return Flow::kNormal;
    }
    case Statement::Kind::kMacro:
      RETURN_IF_ERROR(Charge(kKeptSteps));
      scope_->names[statement.macro->name] = MakeMacro(*statement.macro);
      return Flow::kNormal;
    case Statement::Kind::kCallBlock:
      RETURN_IF_ERROR(ExecuteCallBlock(statement));
      return Flow::kNormal;
    case Statement::Kind::kSetBlock:
    case Statement::Kind::kFilter:
      RETURN_IF_ERROR(ExecuteFiltered(statement));
      return Flow::kNormal;
    case Statement::Kind::kWith:
      return ExecuteWith(statement);
    case Statement::Kind::kScope: {
      const ScopeGuard guard(*this, scope_);
      return Execute(statement.body);
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
    case Statement::Kind::kUnsupported:
      return absl::InvalidArgumentError(statement.text);
  }
  return absl::InternalError("unknown statement");
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(
    const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition));
    if (condition.Truthy()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteFor(
    const Statement& statement) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression));
  return Loop(statement, value, scope_, /*depth0=*/0);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Loop(const Statement& statement,
                                                    const Value& value,
                                                    Scope* scope, int depth0) {
  line_ = statement.line;
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(value));
  if (statement.condition != nullptr) {
    ASSIGN_OR_RETURN(items, FilterItems(statement, std::move(items), scope));
  }
  if (items.empty()) {
    const ScopeGuard guard(*this, scope);
    return Execute(statement.otherwise);
  }
  auto loop = std::make_shared<LoopState>();
  loop->statement = &statement;
  loop->scope = scope;
  loop->length = items.size();
  loop->items = std::move(items);
  loop->depth0 = depth0;
  const absl::StatusOr<Flow> flow = LoopItems(statement, Value::FromLoop(loop));
  // The template may have kept `loop`, even among its own items.
  loop->items.clear();
  loop->last_changed.reset();
  loop->statement = nullptr;
  return flow;
}

absl::StatusOr<Interpreter::Flow> Interpreter::LoopItems(
    const Statement& statement, const Value& loop_value) {
  LoopState& loop = loop_value.loop();
  for (; loop.index0 < loop.items.size(); ++loop.index0) {
    ScopeGuard guard(*this, loop.scope);
    guard.scope().names["loop"] = loop_value;
    // A copy, since the name may be assigned to.
    const Value item = loop.items[loop.index0];
    line_ = statement.line;
    RETURN_IF_ERROR(Charge(1));
    RETURN_IF_ERROR(Assign(statement.target, item));
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNormal;
}

absl::StatusOr<std::vector<Value>> Interpreter::FilterItems(
    const Statement& statement, std::vector<Value> items, Scope* scope) {
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard guard(*this, scope);
    RETURN_IF_ERROR(Assign(statement.target, item));
    ASSIGN_OR_RETURN(const Value holds, Evaluate(*statement.condition));
    if (holds.Truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteWith(
    const Statement& statement) {
  // All values are those outside; none sees the others.
  std::vector<Value> values;
  for (const auto& [target, node] : statement.assignments) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*node));
    values.push_back(std::move(value));
  }
  const ScopeGuard guard(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(Assign(statement.assignments[i].first, values[i]));
  }
  return Execute(statement.body);
}

absl::Status Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Expression& call = *statement.expression;
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.children[0]));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call.arguments));
  RETURN_IF_ERROR(Charge(kKeptSteps));
  arguments.named.emplace_back("caller", MakeMacro(*statement.macro));
  ASSIGN_OR_RETURN(const Value result, Call(callee, arguments));
  return WriteValue(result);
}

absl::Status Interpreter::ExecuteFiltered(const Statement& statement) {
  std::string text;
  {
    ScopeGuard guard(*this, scope_);
    ASSIGN_OR_RETURN(text, Capture(statement.body, guard.scope()));
  }
  Value value = Value::String(std::move(text));
  if (statement.expression != nullptr) {
    ASSIGN_OR_RETURN(
        value, EvaluateBlockFilters(*statement.expression, std::move(value)));
  }
  line_ = statement.line;
  if (statement.kind == Statement::Kind::kFilter) return WriteValue(value);
  return Assign(statement.target, value);
}

absl::StatusOr<std::string> Interpreter::Capture(const Block& block,
                                                 Scope& scope) {
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  Scope* const before = std::exchange(scope_, &scope);
  const absl::StatusOr<Flow> flow = Execute(block);
  scope_ = before;
  out_ = out;
  if (!flow.ok()) return flow.status();
  return text;
}

absl::Status Interpreter::Assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope_->names[target.name] = value;
      return absl::OkStatus();
    case Target::Kind::kNamespaceAttribute: {
      const Value space = Lookup(target.name);
      if (space.kind() != Value::Kind::kNamespace) {
        return absl::InvalidArgumentError(
            "cannot assign attribute on non-namespace object");
      }
      if (absl::StartsWith(target.attribute, "_")) {
        return absl::InvalidArgumentError(
            absl::StrCat("a namespace cannot store '", target.attribute,
                         "': it starts with an underscore"));
      }
      return space.space().attributes.Set(Value::String(target.attribute),
                                          value);
    }
    case Target::Kind::kTuple: {
      ASSIGN_OR_RETURN(const std::vector<Value> parts, Iterate(value));
      if (parts.size() != target.parts.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("cannot unpack ", parts.size(), " values into ",
                         target.parts.size(), " names"));
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        RETURN_IF_ERROR(Assign(target.parts[i], parts[i]));
      }
      return absl::OkStatus();
    }
  }
  return absl::InternalError("unknown target");
}

}  // namespace phalanx::jinja

// Calls: global functions, macros, loops; filters and tests by name.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status.h"
#include "gateway/chat/jinja/filters.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/methods.h"
#include "gateway/chat/jinja/names.h"
#include "gateway/chat/jinja/tests.h"

namespace phalanx::jinja {
namespace {

absl::StatusOr<Value> MakeRange(const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("range", arguments, {"start", "stop", "step"}, 1));
  Range range;
  ASSIGN_OR_RETURN(range.stop, bound.IntegerOr(0, 0));
  if (bound.Has(1)) {
    range.start = range.stop;
    ASSIGN_OR_RETURN(range.stop, bound.IntegerOr(1, 0));
  }
  ASSIGN_OR_RETURN(range.step, bound.IntegerOr(2, 1));
  if (range.step == 0) {
    return absl::InvalidArgumentError("range() step must not be zero");
  }
  // In 128 bits: the difference of two 64-bit numbers may need 65.
  const Integer span = range.step > 0 ? Integer{range.stop} - range.start
                                      : Integer{range.start} - range.stop;
  const Integer stride =
      range.step > 0 ? Integer{range.step} : -Integer{range.step};
  if (span > 0 && (span - 1) / stride + 1 > kMaxRange) {
    return absl::InvalidArgumentError(
        absl::StrCat("range too big: at most ", kMaxRange, " items"));
  }
  if (span <= 0) range.stop = range.start;
  return Value::FromRange(range);
}

absl::StatusOr<Value> MakeDict(Interpreter& interpreter,
                               const Arguments& arguments) {
  auto mapping = std::make_shared<Mapping>();
  if (arguments.positional.size() > 1) {
    return absl::InvalidArgumentError("dict() takes at most 1 argument");
  }
  for (const Value& source : arguments.positional) {
    if (source.is_mapping()) {
      *mapping = source.mapping();
      RETURN_IF_ERROR(
          interpreter.Charge(static_cast<int64_t>(mapping->entries.size())));
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<Value> pairs,
                     interpreter.Iterate(source));
    for (const Value& pair : pairs) {
      ASSIGN_OR_RETURN(const std::vector<Value> parts,
                       interpreter.Iterate(pair));
      if (parts.size() != 2) {
        return absl::InvalidArgumentError("dict() needs pairs");
      }
      RETURN_IF_ERROR(interpreter.ChargeKey(parts[0]));
      RETURN_IF_ERROR(mapping->Set(parts[0], parts[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    RETURN_IF_ERROR(mapping->Set(Value::String(name), value));
  }
  return Value::FromMapping(std::move(mapping));
}

absl::StatusOr<Value> MakeCycler(const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return absl::InvalidArgumentError("cycler() needs at least one item");
  }
  // Made into a list only to have its depth checked.
  RETURN_IF_ERROR(Value::List(arguments.positional).status());
  auto cycler = std::make_shared<Callable>();
  cycler->what = Callable::What::kCycler;
  cycler->name = "cycler";
  cycler->items = arguments.positional;
  return Value::FromCallable(std::move(cycler));
}

absl::StatusOr<Value> MakeJoiner(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("joiner", arguments, {"sep"}));
  auto joiner = std::make_shared<Callable>();
  joiner->what = Callable::What::kJoiner;
  joiner->name = "joiner";
  joiner->items = {bound.ValueOr(0, Value::String(", "))};
  RETURN_IF_ERROR(Value::List(joiner->items).status());
  return Value::FromCallable(std::move(joiner));
}

absl::StatusOr<Value> FormatNow(Interpreter& interpreter,
                                const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("strftime_now", arguments, {"format"}, 1));
  ASSIGN_OR_RETURN(const std::string format, bound.TextOr(0, ""));
  // Each letter may become some twenty bytes.
  RETURN_IF_ERROR(interpreter.ChargeText(format.size()));
  return interpreter.NewText(absl::FormatTime(
      format, absl::FromUnixSeconds(*interpreter.now_unix_seconds()),
      absl::UTCTimeZone()));
}

}  // namespace

bool IsGlobal(absl::string_view name) {
  for (absl::string_view global :
       {"range", "dict", "namespace", "raise_exception", "strftime_now",
        "cycler", "joiner", "lipsum"}) {
    if (name == global) return true;
  }
  return false;
}

absl::StatusOr<Value> Interpreter::Filter(absl::string_view name,
                                          const Value& value,
                                          const Arguments& arguments) {
  const FilterFunction filter = FindFilter(name);
  if (filter == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no filter named '", name, "'"));
  }
  return filter(*this, value, arguments);
}

absl::StatusOr<bool> Interpreter::Test(absl::string_view name,
                                       const Value& value,
                                       const Arguments& arguments) {
  const TestFunction test = FindTest(name);
  if (test == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no test named '", name, "'"));
  }
  return test(*this, value, arguments);
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee,
                                        const Arguments& arguments) {
  if (callee.undefined()) {
    return absl::InvalidArgumentError(callee.undefined_message());
  }
  if (callee.kind() == Value::Kind::kLoop) {
    return CallLoop(callee.loop(), arguments);
  }
  if (callee.kind() != Value::Kind::kCallable) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", callee.type_name(), "' object is not callable"));
  }
  Callable& callable = callee.callable();
  switch (callable.what) {
    case Callable::What::kGlobal:
      return CallGlobal(callable, arguments);
    case Callable::What::kMethod:
      return CallMethod(*this, callable.self, callable.name, arguments);
    case Callable::What::kMacro:
      return CallMacro(callable, arguments);
    case Callable::What::kLoopTool:
      return CallLoopTool(callable, arguments);
    case Callable::What::kJoiner:
      if (callable.position++ == 0) return Value::String("");
      return callable.items[0];
    case Callable::What::kCycler:
      return absl::InvalidArgumentError("'Cycler' object is not callable");
  }
  return absl::InternalError("unknown function");
}

absl::StatusOr<Value> Interpreter::CallGlobal(const Callable& callable,
                                              const Arguments& arguments) {
  const absl::string_view name = callable.name;
  if (name == "range") return MakeRange(arguments);
  if (name == "dict") return MakeDict(*this, arguments);
  if (name == "cycler") return MakeCycler(arguments);
  if (name == "joiner") return MakeJoiner(arguments);
  if (name == "strftime_now") return FormatNow(*this, arguments);
  if (name == "namespace") {
    ASSIGN_OR_RETURN(const Value content, MakeDict(*this, arguments));
    RETURN_IF_ERROR(Charge(kKeptSteps));
    Value space = NewNamespace();
    space.space().attributes = content.mapping();
    return space;
  }
  if (name == "raise_exception") {
    ASSIGN_OR_RETURN(
        const BoundArguments bound,
        BoundArguments::Bind("raise_exception", arguments, {"message"}, 1));
    ASSIGN_OR_RETURN(std::string message, Text(bound[0]));
    return Raise(std::move(message));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("function '", name, "' is not supported"));
}

Value Interpreter::MakeMacro(const MacroDefinition& definition) {
  // Every scope around is within the macro's reach.
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    scope->captured = true;
  }
  auto macro = std::make_shared<Callable>();
  macro->what = Callable::What::kMacro;
  macro->name = definition.name;
  macro->definition = &definition;
  macro->scope = scope_;
  return Value::FromCallable(std::move(macro));
}

absl::StatusOr<Value> Interpreter::CallMacro(const Callable& callable,
                                             const Arguments& arguments) {
  // `callable` may go while the body runs, if its name is assigned to.
  const MacroDefinition& definition = *callable.definition;
  auto scope = std::make_unique<Scope>();
  scope->parent = callable.scope;
  Scope* const before = std::exchange(scope_, scope.get());
  const int line = line_;
  absl::Status status = BindParameters(definition, arguments, *scope);
  absl::StatusOr<std::string> text =
      status.ok() ? Capture(definition.body, *scope) : status;
  scope_ = before;
  if (scope->captured) captured_.push_back(std::move(scope));
  if (!text.ok()) return text.status();
  line_ = line;
  return NewText(*std::move(text));
}

absl::Status Interpreter::BindParameters(const MacroDefinition& macro,
                                         const Arguments& arguments,
                                         Scope& scope) {
  // Every parameter is compared with every name.
  RETURN_IF_ERROR(Charge(static_cast<int64_t>(arguments.named.size() *
                                              macro.parameters.size() / 8)));
  const size_t given =
      std::min(arguments.positional.size(), macro.parameters.size());
  // Defaults see the parameters, also those behind them, as undefined.
  for (const Parameter& parameter : macro.parameters) {
    scope.names[parameter.name] = Value::Undefined(
        absl::StrCat("parameter '", parameter.name, "' was not provided"));
  }
  std::vector<bool> bound(macro.parameters.size(), false);
  for (size_t i = 0; i < given; ++i) {
    scope.names[macro.parameters[i].name] = arguments.positional[i];
    bound[i] = true;
  }
  for (size_t i = given; i < macro.parameters.size(); ++i) {
    for (const auto& [name, value] : arguments.named) {
      if (name != macro.parameters[i].name) continue;
      scope.names[macro.parameters[i].name] = value;
      bound[i] = true;
    }
  }
  RETURN_IF_ERROR(BindExtra(macro, arguments, scope));
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (bound[i] || parameter.default_value == nullptr) continue;
    ASSIGN_OR_RETURN(scope.names[parameter.name],
                     Evaluate(*parameter.default_value));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::BindExtra(const MacroDefinition& macro,
                                    const Arguments& arguments, Scope& scope) {
  std::vector<Value> varargs;
  for (size_t i = macro.parameters.size(); i < arguments.positional.size();
       ++i) {
    varargs.push_back(arguments.positional[i]);
  }
  if (!varargs.empty() && !macro.takes_varargs) {
    return absl::InvalidArgumentError(
        absl::StrCat("macro '", macro.name, "' takes not more than ",
                     macro.parameters.size(), " argument(s)"));
  }
  auto kwargs = std::make_shared<Mapping>();
  Value caller = Value::Undefined("no caller defined");
  for (const auto& [name, value] : arguments.named) {
    bool parameter = false;
    for (size_t i = arguments.positional.size(); i < macro.parameters.size();
         ++i) {
      parameter |= macro.parameters[i].name == name;
    }
    if (parameter) continue;
    if (name == "caller" && macro.takes_caller) {
      caller = value;
    } else if (macro.takes_kwargs) {
      RETURN_IF_ERROR(kwargs->Set(Value::String(name), value));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "macro '", macro.name, "' takes no keyword argument '", name, "'"));
    }
  }
  if (macro.takes_varargs) {
    ASSIGN_OR_RETURN(scope.names["varargs"], Value::Tuple(std::move(varargs)));
  }
  if (macro.takes_kwargs) {
    ASSIGN_OR_RETURN(scope.names["kwargs"],
                     Value::FromMapping(std::move(kwargs)));
  }
  if (macro.takes_caller) scope.names.emplace("caller", std::move(caller));
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CallLoop(LoopState& loop,
                                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("loop", arguments, {"iterable"}, 1));
  if (loop.statement == nullptr || !loop.statement->recursive) {
    return absl::InvalidArgumentError(
        "the loop must have the 'recursive' marker to be called");
  }
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  const absl::StatusOr<Flow> flow =
      Loop(*loop.statement, bound[0], loop.scope, loop.depth0 + 1);
  out_ = out;
  if (!flow.ok()) return flow.status();
  return NewText(std::move(text));
}

absl::StatusOr<Value> Interpreter::CallLoopTool(const Callable& callable,
                                                const Arguments& arguments) {
  LoopState& loop = callable.self.loop();
  if (callable.name == "cycle") {
    if (arguments.positional.empty()) {
      return absl::InvalidArgumentError("no items for cycling given");
    }
    return arguments.positional[loop.index0 % arguments.positional.size()];
  }
  ASSIGN_OR_RETURN(Value now, Value::Tuple(arguments.positional));
  bool same = false;
  if (loop.last_changed) {
    ASSIGN_OR_RETURN(same, Equals(*loop.last_changed, now));
  }
  // A loop that has ended holds nothing any more.
  if (loop.statement != nullptr) loop.last_changed = std::move(now);
  return Value::Bool(!same);
}

absl::StatusOr<Value> Interpreter::LoopAttribute(const Value& value,
                                                 absl::string_view name) {
  const LoopState& loop = value.loop();
  const auto index0 = static_cast<int64_t>(loop.index0);
  const auto length = static_cast<int64_t>(loop.length);
  if (name == "index") return Value::Int(index0 + 1);
  if (name == "index0") return Value::Int(index0);
  if (name == "revindex") return Value::Int(length - index0);
  if (name == "revindex0") return Value::Int(length - index0 - 1);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(index0 + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") {
    if (loop.index0 > 0 && loop.index0 <= loop.items.size()) {
      return loop.items[loop.index0 - 1];
    }
    return Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    if (loop.index0 + 1 < loop.items.size()) {
      return loop.items[loop.index0 + 1];
    }
    return Value::Undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    auto tool = std::make_shared<Callable>();
    tool->what = Callable::What::kLoopTool;
    tool->name = std::string(name);
    tool->self = value;
    return Value::FromCallable(std::move(tool));
  }
  return Value::Undefined(
      absl::StrCat("'LoopContext' has no attribute '", name, "'"));
}

}  // namespace phalanx::jinja

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/names.h"
#include "gateway/chat/jinja/parser.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

template <typename... Nodes>
std::vector<ExpressionPtr> Children(Nodes... nodes) {
  std::vector<ExpressionPtr> children;
  (children.push_back(std::move(nodes)), ...);
  return children;
}

}  // namespace

absl::Status Parser::Measure(Expression& node) const {
  int depth = 0;
  const auto see = [&](const ExpressionPtr& child) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  };
  for (const ExpressionPtr& child : node.children) see(child);
  for (const ExpressionPtr& child : node.arguments.positional) see(child);
  for (const auto& [name, child] : node.arguments.named) see(child);
  see(node.arguments.more_positional);
  see(node.arguments.more_named);
  node.depth = depth + 1;
  if (node.depth > kMaxExpressionDepth) {
    return ErrorAtLine(node.line,
                       absl::StrCat("an expression is nested deeper than ",
                                    kMaxExpressionDepth, " levels"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExpressionPtr> Parser::Node(Kind kind, int line,
                                           std::vector<ExpressionPtr> children,
                                           std::string name) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  node->children = std::move(children);
  RETURN_IF_ERROR(Measure(*node));
  return node;
}

void Parser::NoteUnknown(absl::string_view what, absl::string_view name) {
  if (soft_) return;
  unknown_.push_back(Error(absl::StrCat("no ", what, " named '", name, "'")));
}

bool Parser::AtTupleEnd() const {
  return Current().kind == Token::Kind::kPrintEnd ||
         Current().kind == Token::Kind::kBlockEnd || AtOperator(")");
}

absl::StatusOr<ExpressionPtr> Parser::ParseTuple(bool with_conditional) {
  const int line = Current().line;
  std::vector<ExpressionPtr> items;
  bool comma = false;
  while (!AtTupleEnd()) {
    ASSIGN_OR_RETURN(ExpressionPtr item,
                     with_conditional ? ParseExpression() : ParseOr());
    items.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    comma = true;
  }
  if (comma) return Node(Kind::kTuple, line, std::move(items));
  if (items.empty()) return Unexpected();
  return std::move(items.front());
}

absl::StatusOr<ExpressionPtr> Parser::ParseExpression() {
  RETURN_IF_ERROR(Deeper(expression_depth_, kMaxExpressionDepth));
  const size_t unknown = unknown_.size();
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseOr());
  while (AtName("if")) {
    const int line = Next().line;
    ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (SkipName("else")) {
      ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    ASSIGN_OR_RETURN(node, Node(Kind::kConditional, line,
                                Children(std::move(node), std::move(condition),
                                         std::move(otherwise))));
    unknown_.resize(unknown);
  }
  --expression_depth_;
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseOr() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (AtName("or")) {
    const int line = Next().line;
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    ASSIGN_OR_RETURN(left, Node(Kind::kOr, line,
                                Children(std::move(left), std::move(right))));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseAnd() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (AtName("and")) {
    const int line = Next().line;
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    ASSIGN_OR_RETURN(left, Node(Kind::kAnd, line,
                                Children(std::move(left), std::move(right))));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  RETURN_IF_ERROR(Deeper(expression_depth_, kMaxExpressionDepth));
  const int line = Next().line;
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseNot());
  --expression_depth_;
  return Node(Kind::kNot, line, Children(std::move(node)));
}

absl::StatusOr<ExpressionPtr> Parser::ParseCompare() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  std::vector<ExpressionPtr> operands = Children(std::move(first));
  std::vector<std::string> operators;
  while (true) {
    std::string op;
    for (absl::string_view text : {"==", "!=", "<", "<=", ">", ">="}) {
      if (AtOperator(text)) op = std::string(text);
    }
    if (AtName("in")) op = "in";
    // "not in" takes two tokens; the last token is never a name.
    if (AtName("not") && tokens_[position_ + 1].kind == Token::Kind::kName &&
        tokens_[position_ + 1].text == "in") {
      Next();
      op = "not in";
    }
    if (op.empty()) break;
    Next();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    operators.push_back(std::move(op));
    operands.push_back(std::move(operand));
  }
  if (operators.empty()) return std::move(operands.front());
  ASSIGN_OR_RETURN(ExpressionPtr node,
                   Node(Kind::kCompare, line, std::move(operands)));
  node->operators = std::move(operators);
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseSum() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcat());
  while (AtOperator("+") || AtOperator("-")) {
    const Token op = Next();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcat());
    ASSIGN_OR_RETURN(
        left, Node(Kind::kArithmetic, op.line,
                   Children(std::move(left), std::move(right)), op.text));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseConcat() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!AtOperator("~")) return first;
  std::vector<ExpressionPtr> parts = Children(std::move(first));
  while (SkipOperator("~")) {
    ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    parts.push_back(std::move(part));
  }
  return Node(Kind::kConcat, line, std::move(parts));
}

absl::StatusOr<ExpressionPtr> Parser::ParseProduct() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParsePower());
  while (AtOperator("*") || AtOperator("/") || AtOperator("//") ||
         AtOperator("%")) {
    const Token op = Next();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    ASSIGN_OR_RETURN(
        left, Node(Kind::kArithmetic, op.line,
                   Children(std::move(left), std::move(right)), op.text));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParsePower() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(/*with_filters=*/true));
  while (AtOperator("**")) {
    const Token op = Next();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(/*with_filters=*/true));
    ASSIGN_OR_RETURN(
        left, Node(Kind::kArithmetic, op.line,
                   Children(std::move(left), std::move(right)), op.text));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseUnary(bool with_filters) {
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    RETURN_IF_ERROR(Deeper(expression_depth_, kMaxExpressionDepth));
    const Token op = Next();
    ASSIGN_OR_RETURN(node, ParseUnary(/*with_filters=*/false));
    ASSIGN_OR_RETURN(
        node, Node(op.text == "-" ? Kind::kNegative : Kind::kPositive, op.line,
                   Children(std::move(node))));
    --expression_depth_;
  } else {
    ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (!with_filters) return node;
  return ParseFiltersAndTests(std::move(node));
}

absl::StatusOr<ExpressionPtr> Parser::ParsePrimary() {
  const Token token = Current();
  switch (token.kind) {
    case Token::Kind::kName:
      return ParseNameOrConstant();
    case Token::Kind::kNumber: {
      Next();
      ASSIGN_OR_RETURN(ExpressionPtr node,
                       Node(Kind::kConstant, token.line, {}));
      node->constant = token.number;
      return node;
    }
    case Token::Kind::kString: {
      std::string text;
      while (Current().kind == Token::Kind::kString) text += Next().text;
      ASSIGN_OR_RETURN(ExpressionPtr node,
                       Node(Kind::kConstant, token.line, {}));
      node->constant = Value::String(std::move(text));
      return node;
    }
    case Token::Kind::kOperator:
      if (token.text == "(") return ParseParenthesis();
      if (token.text == "[") return ParseList();
      if (token.text == "{") return ParseDict();
      return Unexpected();
    default:
      return Unexpected();
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseNameOrConstant() {
  const Token token = Next();
  ASSIGN_OR_RETURN(ExpressionPtr node, Node(Kind::kConstant, token.line, {}));
  if (token.text == "true" || token.text == "True") {
    node->constant = Value::Bool(true);
  } else if (token.text == "false" || token.text == "False") {
    node->constant = Value::Bool(false);
  } else if (token.text != "none" && token.text != "None") {
    node->kind = Kind::kName;
    node->name = token.text;
    for (MacroDefinition* macro : macros_) {
      macro->takes_varargs |= token.text == "varargs";
      macro->takes_kwargs |= token.text == "kwargs";
      macro->takes_caller |= token.text == "caller";
    }
  }
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseParenthesis() {
  const int line = Next().line;
  if (SkipOperator(")")) return Node(Kind::kTuple, line, {});
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseTuple(/*with_conditional=*/true));
  RETURN_IF_ERROR(ExpectOperator(")"));
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseList() {
  const int line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!AtOperator("]")) {
    if (!items.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator("]")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    items.push_back(std::move(item));
  }
  RETURN_IF_ERROR(ExpectOperator("]"));
  return Node(Kind::kList, line, std::move(items));
}

absl::StatusOr<ExpressionPtr> Parser::ParseDict() {
  const int line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!AtOperator("}")) {
    if (!items.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator("}")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    RETURN_IF_ERROR(ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    items.push_back(std::move(key));
    items.push_back(std::move(value));
  }
  RETURN_IF_ERROR(ExpectOperator("}"));
  return Node(Kind::kDict, line, std::move(items));
}

absl::StatusOr<ExpressionPtr> Parser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (AtOperator(".")) {
      ASSIGN_OR_RETURN(node, ParseAttribute(std::move(node)));
    } else if (AtOperator("[")) {
      ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (AtOperator("(")) {
      ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseFiltersAndTests(ExpressionPtr node) {
  while (true) {
    if (AtOperator("|")) {
      ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (AtName("is")) {
      ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (AtOperator("(")) {
      ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseAttribute(ExpressionPtr node) {
  const int line = Next().line;
  const Token token = Next();
  if (token.kind == Token::Kind::kName) {
    return Node(Kind::kAttribute, line, Children(std::move(node)), token.text);
  }
  if (token.kind != Token::Kind::kNumber || !token.number.is_integer()) {
    return ErrorAtLine(line, "expected name or number behind '.'");
  }
  ASSIGN_OR_RETURN(ExpressionPtr index, Node(Kind::kConstant, line, {}));
  index->constant = token.number;
  return Node(Kind::kItem, line, Children(std::move(node), std::move(index)));
}

absl::StatusOr<ExpressionPtr> Parser::ParseSubscript(ExpressionPtr node) {
  const int line = Next().line;
  std::vector<ExpressionPtr> slice = Children(std::move(node));
  bool sliced = false;
  while (!AtOperator("]")) {
    if (SkipOperator(":")) {
      sliced = true;
      // A part that was left out stands as null.
      if (slice.size() == 1) slice.emplace_back();
      if (AtOperator(":") || AtOperator("]")) slice.emplace_back();
    } else if (sliced || slice.size() == 1) {
      ASSIGN_OR_RETURN(ExpressionPtr part, ParseTuple(true));
      slice.push_back(std::move(part));
    } else {
      return Unexpected();
    }
    if (slice.size() > 5) return Unexpected();
  }
  RETURN_IF_ERROR(ExpectOperator("]"));
  if (slice.size() == 1) return Unexpected();
  if (!sliced) return Node(Kind::kItem, line, std::move(slice));
  if (slice.size() > 4) return Unexpected();
  slice.resize(4);
  return Node(Kind::kSlice, line, std::move(slice));
}

absl::StatusOr<ExpressionPtr> Parser::ParseCall(ExpressionPtr node) {
  const int line = Current().line;
  ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  ASSIGN_OR_RETURN(ExpressionPtr call,
                   Node(Kind::kCall, line, Children(std::move(node))));
  call->arguments = std::move(arguments);
  RETURN_IF_ERROR(Measure(*call));
  return call;
}

absl::StatusOr<CallArguments> Parser::ParseArguments() {
  RETURN_IF_ERROR(ExpectOperator("("));
  CallArguments arguments;
  bool first = true;
  while (!AtOperator(")")) {
    if (!first) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator(")")) break;
    }
    first = false;
    if (SkipOperator("**")) {
      if (arguments.more_named != nullptr) return Unexpected();
      ASSIGN_OR_RETURN(arguments.more_named, ParseExpression());
    } else if (SkipOperator("*")) {
      if (arguments.more_positional != nullptr) return Unexpected();
      ASSIGN_OR_RETURN(arguments.more_positional, ParseExpression());
    } else if (Current().kind == Token::Kind::kName &&
               tokens_[position_ + 1].kind == Token::Kind::kOperator &&
               tokens_[position_ + 1].text == "=") {
      std::string name = Next().text;
      Next();
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.named.empty()) {
        return Error("a positional argument follows a named one");
      }
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.positional.push_back(std::move(value));
    }
  }
  RETURN_IF_ERROR(ExpectOperator(")"));
  return arguments;
}

absl::StatusOr<std::string> Parser::ParseDottedName() {
  ASSIGN_OR_RETURN(std::string name, ExpectName());
  while (SkipOperator(".")) {
    ASSIGN_OR_RETURN(const std::string part, ExpectName());
    absl::StrAppend(&name, ".", part);
  }
  return name;
}

absl::StatusOr<ExpressionPtr> Parser::ParseFilter(ExpressionPtr node) {
  const int line = Next().line;
  ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  if (!IsFilter(name)) NoteUnknown("filter", name);
  CallArguments arguments;
  if (AtOperator("(")) {
    ASSIGN_OR_RETURN(arguments, ParseArguments());
  }
  ASSIGN_OR_RETURN(
      ExpressionPtr filter,
      Node(Kind::kFilter, line, Children(std::move(node)), std::move(name)));
  filter->arguments = std::move(arguments);
  RETURN_IF_ERROR(Measure(*filter));
  return filter;
}

absl::StatusOr<ExpressionPtr> Parser::ParseTest(ExpressionPtr node) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  if (!IsTest(name)) NoteUnknown("test", name);
  CallArguments arguments;
  const Token::Kind kind = Current().kind;
  if (AtOperator("(")) {
    ASSIGN_OR_RETURN(arguments, ParseArguments());
  } else if ((kind == Token::Kind::kName && !AtName("else") && !AtName("or") &&
              !AtName("and")) ||
             kind == Token::Kind::kString || kind == Token::Kind::kNumber ||
             AtOperator("[") || AtOperator("{")) {
    if (AtName("is")) return Error("tests with 'is' cannot be chained");
    ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(
      ExpressionPtr test,
      Node(Kind::kTest, line, Children(std::move(node)), std::move(name)));
  test->arguments = std::move(arguments);
  RETURN_IF_ERROR(Measure(*test));
  if (!negated) return test;
  return Node(Kind::kNot, line, Children(std::move(test)));
}

}  // namespace phalanx::jinja

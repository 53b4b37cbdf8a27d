#include "gateway/chat/jinja/parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"

namespace phalanx::jinja {
namespace {

StatementPtr MakeStatement(Statement::Kind kind, int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  return statement;
}

}  // namespace

// Sets soft_ for the time of a scope.
class Parser::Soft {
 public:
  Soft(Parser& parser, bool soft) : parser_(parser), before_(parser.soft_) {
    parser.soft_ = soft;
  }
  ~Soft() { parser_.soft_ = before_; }
  Soft(const Soft&) = delete;
  Soft& operator=(const Soft&) = delete;

 private:
  Parser& parser_;
  bool before_;
};

absl::StatusOr<Block> Parser::Parse() {
  ASSIGN_OR_RETURN(Block body, ParseBody({}));
  if (!unknown_.empty()) return unknown_.front();
  return body;
}

absl::Status Parser::Error(absl::string_view message) const {
  return ErrorAtLine(Current().line, message);
}

absl::Status Parser::Unexpected() const {
  switch (Current().kind) {
    case Token::Kind::kEnd:
      return Error("unexpected end of template");
    case Token::Kind::kPrintEnd:
      return Error("unexpected 'end of print statement'");
    case Token::Kind::kBlockEnd:
      return Error("unexpected 'end of statement block'");
    default:
      return Error(absl::StrCat("unexpected '", Current().text, "'"));
  }
}

absl::Status Parser::Deeper(int& depth, int limit) const {
  if (++depth <= limit) return absl::OkStatus();
  return Error(absl::StrCat("nested deeper than ", limit, " levels"));
}

bool Parser::AtOperator(absl::string_view text) const {
  return Current().kind == Token::Kind::kOperator && Current().text == text;
}

bool Parser::AtName(absl::string_view text) const {
  return Current().kind == Token::Kind::kName && Current().text == text;
}

bool Parser::SkipOperator(absl::string_view text) {
  if (!AtOperator(text)) return false;
  Next();
  return true;
}

bool Parser::SkipName(absl::string_view text) {
  if (!AtName(text)) return false;
  Next();
  return true;
}

absl::Status Parser::ExpectOperator(absl::string_view text) {
  if (SkipOperator(text)) return absl::OkStatus();
  return Error(absl::StrCat(Unexpected().message(), ", expected '", text, "'"));
}

absl::StatusOr<std::string> Parser::ExpectName() {
  if (Current().kind != Token::Kind::kName) return Unexpected();
  return Next().text;
}

absl::Status Parser::ExpectBlockEnd() {
  if (Current().kind != Token::Kind::kBlockEnd) return Unexpected();
  Next();
  return absl::OkStatus();
}

// Stops behind the name of one of `end_tags` (the template's end if none).
absl::StatusOr<Block> Parser::ParseBody(
    std::vector<absl::string_view> end_tags) {
  RETURN_IF_ERROR(Deeper(block_depth_, kMaxBlockDepth));
  Block body;
  while (true) {
    switch (Current().kind) {
      case Token::Kind::kText:
        body.push_back(MakeStatement(Statement::Kind::kText, Current().line));
        body.back()->text = Next().text;
        continue;
      case Token::Kind::kPrintBegin: {
        ASSIGN_OR_RETURN(StatementPtr print, ParsePrint());
        body.push_back(std::move(print));
        continue;
      }
      case Token::Kind::kBlockBegin: {
        Next();
        if (Current().kind != Token::Kind::kName) return Unexpected();
        if (std::find(end_tags.begin(), end_tags.end(), Current().text) !=
            end_tags.end()) {
          --block_depth_;
          return body;
        }
        ASSIGN_OR_RETURN(StatementPtr statement, ParseTag());
        body.push_back(std::move(statement));
        RETURN_IF_ERROR(ExpectBlockEnd());
        continue;
      }
      default:
        if (!end_tags.empty()) {
          return Error(absl::StrCat("unexpected end of template, expected '",
                                    absl::StrJoin(end_tags, "' or '"), "'"));
        }
        --block_depth_;
        return body;
    }
  }
}

absl::StatusOr<Block> Parser::ParseWhole(absl::string_view end_tag) {
  RETURN_IF_ERROR(ExpectBlockEnd());
  ASSIGN_OR_RETURN(Block body, ParseBody({end_tag}));
  Next();
  return body;
}

absl::StatusOr<StatementPtr> Parser::ParsePrint() {
  StatementPtr print = MakeStatement(Statement::Kind::kPrint, Next().line);
  ASSIGN_OR_RETURN(print->expression, ParseTuple(/*with_conditional=*/true));
  if (Current().kind != Token::Kind::kPrintEnd) return Unexpected();
  Next();
  return print;
}

absl::StatusOr<StatementPtr> Parser::ParseTag() {
  const int line = Current().line;
  const std::string name = Next().text;
  if (name == "if") return ParseIf(line);
  if (name == "for") return ParseFor(line);
  if (name == "set") return ParseSet(line);
  if (name == "macro") return ParseMacro(line);
  if (name == "call") return ParseCallBlock(line);
  if (name == "filter") return ParseFilterBlock(line);
  if (name == "with") return ParseWith(line);
  if (name == "generation") return ParseScope(line, "endgeneration");
  if (name == "break" || name == "continue") {
    return ParseLoopControl(name, line);
  }
  if (name == "include" || name == "import" || name == "from" ||
      name == "extends") {
    return ParseUnsupported(name, line);
  }
  return ErrorAtLine(line, absl::StrCat("unknown tag '", name, "'"));
}

absl::StatusOr<StatementPtr> Parser::ParseIf(int line) {
  const Soft soft(*this, true);
  StatementPtr statement = MakeStatement(Statement::Kind::kIf, line);
  while (true) {
    Branch branch;
    ASSIGN_OR_RETURN(branch.condition, ParseTuple(/*with_conditional=*/false));
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}));
    statement->branches.push_back(std::move(branch));
    const std::string tag = Next().text;
    if (tag == "endif") return statement;
    if (tag == "else") break;
  }
  ASSIGN_OR_RETURN(statement->otherwise, ParseWhole("endif"));
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseFor(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kFor, line);
  ASSIGN_OR_RETURN(statement->target, ParseTarget(/*with_attribute=*/false));
  if (!SkipName("in")) return Unexpected();
  ASSIGN_OR_RETURN(statement->expression,
                   ParseTuple(/*with_conditional=*/false));
  const Soft hard(*this, false);
  if (SkipName("if")) {
    ASSIGN_OR_RETURN(statement->condition, ParseExpression());
  }
  statement->recursive = SkipName("recursive");
  RETURN_IF_ERROR(ExpectBlockEnd());
  ++loop_depth_;
  ASSIGN_OR_RETURN(statement->body, ParseBody({"endfor", "else"}));
  --loop_depth_;
  if (Next().text == "else") {
    ASSIGN_OR_RETURN(statement->otherwise, ParseWhole("endfor"));
  }
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseSet(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kSet, line);
  ASSIGN_OR_RETURN(statement->target, ParseTarget(/*with_attribute=*/true));
  if (SkipOperator("=")) {
    ASSIGN_OR_RETURN(statement->expression,
                     ParseTuple(/*with_conditional=*/true));
    return statement;
  }
  statement->kind = Statement::Kind::kSetBlock;
  const Soft hard(*this, false);
  while (AtOperator("|")) {
    ASSIGN_OR_RETURN(statement->expression,
                     ParseFilter(std::move(statement->expression)));
  }
  ASSIGN_OR_RETURN(statement->body, ParseWhole("endset"));
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseWith(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kWith, line);
  while (Current().kind != Token::Kind::kBlockEnd) {
    if (!statement->assignments.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    ASSIGN_OR_RETURN(Target target, ParseTargetPart(/*with_attribute=*/false));
    RETURN_IF_ERROR(ExpectOperator("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    statement->assignments.emplace_back(std::move(target), std::move(value));
  }
  const Soft hard(*this, false);
  ASSIGN_OR_RETURN(statement->body, ParseWhole("endwith"));
  return statement;
}

absl::Status Parser::ParseSignature(MacroDefinition& macro) {
  RETURN_IF_ERROR(ExpectOperator("("));
  while (!AtOperator(")")) {
    if (!macro.parameters.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    Parameter parameter;
    ASSIGN_OR_RETURN(parameter.name, ExpectName());
    if (SkipOperator("=")) {
      ASSIGN_OR_RETURN(parameter.default_value, ParseExpression());
    } else if (!macro.parameters.empty() &&
               macro.parameters.back().default_value != nullptr) {
      return Error("non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return ExpectOperator(")");
}

absl::Status Parser::ParseMacroBody(absl::string_view end_tag,
                                    MacroDefinition& macro) {
  const Soft hard(*this, false);
  // A loop around the macro is not the macro's.
  const int loop_depth = std::exchange(loop_depth_, 0);
  macros_.push_back(&macro);
  ASSIGN_OR_RETURN(macro.body, ParseWhole(end_tag));
  macros_.pop_back();
  loop_depth_ = loop_depth;
  return absl::OkStatus();
}

absl::StatusOr<StatementPtr> Parser::ParseMacro(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kMacro, line);
  statement->macro = std::make_unique<MacroDefinition>();
  ASSIGN_OR_RETURN(statement->macro->name, ExpectName());
  RETURN_IF_ERROR(ParseSignature(*statement->macro));
  RETURN_IF_ERROR(ParseMacroBody("endmacro", *statement->macro));
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseCallBlock(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kCallBlock, line);
  statement->macro = std::make_unique<MacroDefinition>();
  statement->macro->name = "caller";
  if (AtOperator("(")) RETURN_IF_ERROR(ParseSignature(*statement->macro));
  ASSIGN_OR_RETURN(statement->expression, ParseExpression());
  if (statement->expression->kind != Expression::Kind::kCall) {
    return ErrorAtLine(line, "a call block needs a call");
  }
  RETURN_IF_ERROR(ParseMacroBody("endcall", *statement->macro));
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseFilterBlock(int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kFilter, line);
  const Soft hard(*this, false);
  // The first filter stands without its bar.
  --position_;
  tokens_[position_] = Token{Token::Kind::kOperator, "|", Value(), line};
  while (AtOperator("|")) {
    ASSIGN_OR_RETURN(statement->expression,
                     ParseFilter(std::move(statement->expression)));
  }
  ASSIGN_OR_RETURN(statement->body, ParseWhole("endfilter"));
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseScope(int line,
                                                absl::string_view end_tag) {
  StatementPtr statement = MakeStatement(Statement::Kind::kScope, line);
  const Soft hard(*this, false);
  const int loop_depth = std::exchange(loop_depth_, 0);
  ASSIGN_OR_RETURN(statement->body, ParseWhole(end_tag));
  loop_depth_ = loop_depth;
  return statement;
}

absl::StatusOr<StatementPtr> Parser::ParseLoopControl(absl::string_view name,
                                                      int line) {
  if (loop_depth_ == 0) {
    return ErrorAtLine(line, absl::StrCat("'", name, "' outside of a loop"));
  }
  return MakeStatement(
      name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue,
      line);
}

absl::StatusOr<StatementPtr> Parser::ParseUnsupported(absl::string_view name,
                                                      int line) {
  StatementPtr statement = MakeStatement(Statement::Kind::kUnsupported, line);
  statement->text = absl::StrCat(
      "'", name, "' needs other templates, and a chat template has none");
  while (Current().kind != Token::Kind::kBlockEnd) {
    if (Current().kind == Token::Kind::kEnd) return Unexpected();
    Next();
  }
  return statement;
}

absl::StatusOr<Target> Parser::ParseTarget(bool with_attribute) {
  Target target;
  target.kind = Target::Kind::kTuple;
  target.line = Current().line;
  bool comma = false;
  do {
    if (AtName("in") || AtTupleEnd() || AtOperator("=")) break;
    ASSIGN_OR_RETURN(Target part, ParseTargetPart(with_attribute));
    target.parts.push_back(std::move(part));
    comma = AtOperator(",") || comma;
  } while (SkipOperator(","));
  if (target.parts.empty()) return Unexpected();
  if (comma) return target;
  Target only = std::move(target.parts.front());
  return only;
}

absl::StatusOr<Target> Parser::ParseTargetPart(bool with_attribute) {
  RETURN_IF_ERROR(Deeper(expression_depth_, kMaxExpressionDepth));
  Target target;
  target.line = Current().line;
  if (SkipOperator("(")) {
    ASSIGN_OR_RETURN(target, ParseTarget(with_attribute));
    RETURN_IF_ERROR(ExpectOperator(")"));
  } else {
    ASSIGN_OR_RETURN(target.name, ExpectName());
    for (absl::string_view constant :
         {"true", "false", "none", "True", "False", "None"}) {
      if (target.name == constant) {
        return Error(absl::StrCat("can't assign to '", target.name, "'"));
      }
    }
    if (with_attribute && SkipOperator(".")) {
      target.kind = Target::Kind::kNamespaceAttribute;
      ASSIGN_OR_RETURN(target.attribute, ExpectName());
    }
  }
  --expression_depth_;
  return target;
}

}  // namespace phalanx::jinja

#ifndef PHALANX_GATEWAY_CHAT_JINJA_PARSER_H_
#define PHALANX_GATEWAY_CHAT_JINJA_PARSER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/ast.h"
#include "gateway/chat/jinja/lexer.h"

namespace phalanx::jinja {

// Deepest nesting of one expression, and of statements in statements.
inline constexpr int kMaxExpressionDepth = 200;
inline constexpr int kMaxBlockDepth = 100;

// Tokens to a tree, by recursive descent: one function per level of
// precedence. Lives for one parse, on one thread; statements are in parser.cc,
// expressions in expression_parser.cc. Every error is INVALID_ARGUMENT with
// the line.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The whole template.
  absl::StatusOr<Block> Parse();

 private:
  class Soft;

  // Statements (parser.cc). Each starts at the token behind its name.
  absl::StatusOr<Block> ParseBody(std::vector<absl::string_view> end_tags);
  absl::StatusOr<StatementPtr> ParsePrint();
  absl::StatusOr<StatementPtr> ParseTag();
  absl::StatusOr<StatementPtr> ParseIf(int line);
  absl::StatusOr<StatementPtr> ParseFor(int line);
  absl::StatusOr<StatementPtr> ParseSet(int line);
  absl::StatusOr<StatementPtr> ParseWith(int line);
  absl::StatusOr<StatementPtr> ParseMacro(int line);
  absl::StatusOr<StatementPtr> ParseCallBlock(int line);
  absl::StatusOr<StatementPtr> ParseFilterBlock(int line);
  absl::StatusOr<StatementPtr> ParseScope(int line, absl::string_view end_tag);
  absl::StatusOr<StatementPtr> ParseLoopControl(absl::string_view name,
                                                int line);
  absl::StatusOr<StatementPtr> ParseUnsupported(absl::string_view name,
                                                int line);
  absl::Status ParseSignature(MacroDefinition& macro);
  absl::Status ParseMacroBody(absl::string_view end_tag,
                              MacroDefinition& macro);
  // A body that ends with `end_tag`, which is eaten.
  absl::StatusOr<Block> ParseWhole(absl::string_view end_tag);
  absl::StatusOr<Target> ParseTarget(bool with_attribute);
  absl::StatusOr<Target> ParseTargetPart(bool with_attribute);

  // Expressions (expression_parser.cc).
  absl::StatusOr<ExpressionPtr> ParseExpression();
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_conditional);
  absl::StatusOr<ExpressionPtr> ParseOr();
  absl::StatusOr<ExpressionPtr> ParseAnd();
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseCompare();
  absl::StatusOr<ExpressionPtr> ParseSum();
  absl::StatusOr<ExpressionPtr> ParseConcat();
  absl::StatusOr<ExpressionPtr> ParseProduct();
  absl::StatusOr<ExpressionPtr> ParsePower();
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filters);
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseNameOrConstant();
  absl::StatusOr<ExpressionPtr> ParseParenthesis();
  absl::StatusOr<ExpressionPtr> ParseList();
  absl::StatusOr<ExpressionPtr> ParseDict();
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseAttribute(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseSubscriptItem(ExpressionPtr node,
                                                   bool& sliced);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseFilter(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr node);
  // At the opening parenthesis.
  absl::StatusOr<CallArguments> ParseArguments();
  absl::StatusOr<std::string> ParseDottedName();
  // Would a tuple end here?
  bool AtTupleEnd() const;

  // A node over children, its depth checked.
  absl::StatusOr<ExpressionPtr> Node(Expression::Kind kind, int line,
                                     std::vector<ExpressionPtr> children,
                                     std::string name = "");
  // Sets a node's depth from what it holds.
  absl::Status Measure(Expression& node) const;
  // Remembers that `name` means nothing, unless an `if` may never get there.
  void NoteUnknown(absl::string_view what, absl::string_view name);

  const Token& Current() const { return tokens_[position_]; }
  const Token& Next() { return tokens_[position_++]; }
  bool AtOperator(absl::string_view text) const;
  bool AtName(absl::string_view text) const;
  bool SkipOperator(absl::string_view text);
  bool SkipName(absl::string_view text);
  absl::Status ExpectOperator(absl::string_view text);
  absl::StatusOr<std::string> ExpectName();
  absl::Status ExpectBlockEnd();
  absl::Status Error(absl::string_view message) const;
  absl::Status Unexpected() const;
  // At most `limit` deep; `depth` is one of the two counters below.
  absl::Status Deeper(int& depth, int limit) const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int expression_depth_ = 0;
  int block_depth_ = 0;
  int loop_depth_ = 0;
  // Inside an `if`, where unknown filters are errors only when reached.
  bool soft_ = false;
  // Errors for unknown filters and tests outside of any `if`. A conditional
  // expression drops those of its parts.
  std::vector<absl::Status> unknown_;
  // Macros whose body is being read, innermost last.
  std::vector<MacroDefinition*> macros_;
};

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_PARSER_H_

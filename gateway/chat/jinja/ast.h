#ifndef PHALANX_GATEWAY_CHAT_JINJA_AST_H_
#define PHALANX_GATEWAY_CHAT_JINJA_AST_H_

// A parsed template. Built once by the parser, then const: any number of
// renders on any threads may walk it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

// What stands between the parentheses of a call, filter or test.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *list; may be null.
  ExpressionPtr more_named;       // **dict; may be null.
};

// One node of an expression. Which fields count depends on `kind`.
struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // children
    kTuple,        // children
    kDict,         // children: key, value, key, value, ...
    kAttribute,    // children[0] . name
    kItem,         // children[0] [ children[1] ]
    kSlice,        // children[0] [ children[1] : [2] : [3] ], null if left out
    kCall,         // children[0] ( arguments )
    kFilter,       // children[0] | name ( arguments ); null child: a block
    kTest,         // children[0] is name ( arguments )
    kNot,          // children[0]
    kNegative,     // children[0]
    kPositive,     // children[0]
    kArithmetic,   // children[0] name children[1]: + - * / // % **
    kConcat,       // all children, as text
    kAnd,          // children[0], children[1]
    kOr,           // children[0], children[1]
    kCompare,      // children[0] operators[0] children[1] operators[1] ...
    kConditional,  // children: then, condition, else (null if left out)
  };
  Kind kind;
  int line = 0;
  int depth = 1;  // Of the tree below, this node included.
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<std::string> operators;
  CallArguments arguments;
};

// Where an assignment goes.
struct Target {
  enum class Kind { kName, kNamespaceAttribute, kTuple };
  Kind kind = Kind::kName;
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
  int line = 0;
};

struct Parameter {
  std::string name;
  ExpressionPtr default_value;  // Null: undefined when not given.
};

// A macro's or call block's body and how it may be called.
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  // Whether the body mentions these, which is what allows passing them.
  bool takes_varargs = false;
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct Branch {
  ExpressionPtr condition;
  Block body;
};

// One statement. Which fields count depends on `kind`.
struct Statement {
  enum class Kind {
    kText,       // text
    kPrint,      // expression
    kIf,         // branches, otherwise
    kFor,        // target, expression, condition (may be null), recursive,
                 // body, otherwise
    kSet,        // target, expression
    kSetBlock,   // target, expression (filters, may be null), body
    kMacro,      // macro
    kCallBlock,  // expression (a call), macro
    kFilter,     // expression (filters), body
    kWith,       // assignments, body
    kScope,      // body, in a scope of its own
    kBreak,
    kContinue,
    kUnsupported,  // text: the error when it is reached
  };
  Kind kind;
  int line = 0;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  bool recursive = false;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Block otherwise;
  std::unique_ptr<MacroDefinition> macro;
};

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_AST_H_

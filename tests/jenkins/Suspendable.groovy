import org.codehaus.groovy.ast.ASTNode
import org.codehaus.groovy.ast.ClassNode
import org.codehaus.groovy.ast.CodeVisitorSupport
import org.codehaus.groovy.ast.expr.BinaryExpression
import org.codehaus.groovy.ast.expr.ClosureExpression
import org.codehaus.groovy.ast.expr.ConstructorCallExpression
import org.codehaus.groovy.ast.expr.Expression
import org.codehaus.groovy.ast.expr.MethodCallExpression
import org.codehaus.groovy.ast.expr.MethodPointerExpression
import org.codehaus.groovy.ast.expr.PropertyExpression
import org.codehaus.groovy.ast.expr.SpreadExpression
import org.codehaus.groovy.ast.stmt.SynchronizedStatement
import org.codehaus.groovy.classgen.GeneratorContext
import org.codehaus.groovy.control.CompilePhase
import org.codehaus.groovy.control.SourceUnit
import org.codehaus.groovy.control.customizers.CompilationCustomizer
import org.codehaus.groovy.syntax.SyntaxException
import org.codehaus.groovy.syntax.Types

/**
 * Refuses what plain Groovy runs and Jenkins does not: it rewrites scripts so that each step can suspend them and what
 * they hold is written to disk, and neither goes for all of Groovy. A list of what is known, and no proof.
 */
class Suspendable extends CompilationCustomizer {

    Suspendable() {
        super(CompilePhase.CONVERSION)
    }

    @Override
    void call(SourceUnit source, GeneratorContext context, ClassNode type) {
        Finder finder = new Finder(source)
        source.AST.statementBlock.visit(finder)
        source.AST.methods.each { method -> method.code.visit(finder) }
    }

    static class Finder extends CodeVisitorSupport {

        // Methods of objects whose closures are rewritten with them, as far as they are used here.
        static final Set<String> REWRITTEN = ['any', 'collect', 'collectEntries', 'each', 'every', 'find', 'findAll',
                                              'inside'] as Set

        private final SourceUnit source
        // The method that takes the closure in which the visitor is; empty outside of such.
        private String taker = ''

        Finder(SourceUnit source) {
            this.source = source
        }

        @Override
        void visitMethodCallExpression(MethodCallExpression call) {
            String name = call.methodAsString
            if (call.spreadSafe) {
                refuse(call, "*.${name} is not rewritten by Jenkins; write a loop")
            }
            if (taker && call.implicitThis && isStep(name)) {
                refuse(call, "${name} in a closure of ${taker}: suspended there it may go on nowhere; write a for")
            }
            List<Expression> closures = call.arguments.expressions.findAll { one -> one instanceof ClosureExpression }
            if (call.implicitThis || !closures || name == 'inside') {
                super.visitMethodCallExpression(call)
                return
            }
            if (!(name in REWRITTEN)) {
                refuse(call, "${name} with a closure is not rewritten by Jenkins")
            }
            String before = taker
            taker = name
            super.visitMethodCallExpression(call)
            taker = before
        }

        @Override
        void visitPropertyExpression(PropertyExpression property) {
            if (property.spreadSafe) {
                refuse(property, "*.${property.propertyAsString} is not rewritten by Jenkins; write a loop")
            }
            super.visitPropertyExpression(property)
        }

        @Override
        void visitBinaryExpression(BinaryExpression expression) {
            if (expression.operation.type == Types.FIND_REGEX) {
                refuse(expression, '=~ gives a Matcher, which cannot be written to disk; use ==~')
            }
            super.visitBinaryExpression(expression)
        }

        @Override
        void visitConstructorCallExpression(ConstructorCallExpression call) {
            refuse(call, "new ${call.type.name}: it would be made on the controller, and has to be written to disk")
            super.visitConstructorCallExpression(call)
        }

        @Override
        void visitMethodPointerExpression(MethodPointerExpression pointer) {
            refuse(pointer, '.& is not rewritten by Jenkins')
            super.visitMethodPointerExpression(pointer)
        }

        @Override
        void visitListOfExpressions(List<? extends Expression> expressions) {
            expressions.findAll { one -> one instanceof SpreadExpression }.each { one ->
                refuse(one, 'arguments by * are not rewritten by Jenkins')
            }
            super.visitListOfExpressions(expressions)
        }

        @Override
        void visitSynchronizedStatement(SynchronizedStatement statement) {
            refuse(statement, 'synchronized is not rewritten by Jenkins')
            super.visitSynchronizedStatement(statement)
        }

        private boolean isStep(String name) {
            (Known.STEPS.keySet() - Known.HANDED).contains(name) || name?.startsWith('spyre')
        }

        private void refuse(ASTNode node, String why) {
            source.addError(new SyntaxException(why, node.lineNumber, node.columnNumber))
        }

    }

}

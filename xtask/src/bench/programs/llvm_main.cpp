// A C++ compiler in one file: `program -triple TARGET -S -x c++ FILE -o -` compiles for any target that LLVM knows.
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/FrontendTool/Utils.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

int main(int argc, char **argv) {
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::InitializeAllAsmParsers();
  llvm::SmallVector<const char *, 16> arguments(argv + 1, argv + argc);
  clang::DiagnosticOptions options;
  auto *printer = new clang::TextDiagnosticPrinter(llvm::errs(), options);
  clang::DiagnosticsEngine diagnostics(clang::DiagnosticIDs::create(), options, printer);
  auto compiler = std::make_unique<clang::CompilerInstance>();
  if (!clang::CompilerInvocation::CreateFromArgs(compiler->getInvocation(), arguments, diagnostics, argv[0]))
    return 1;
  compiler->createVirtualFileSystem();
  compiler->createDiagnostics();
  return clang::ExecuteCompilerInvocation(compiler.get()) ? 0 : 1;
}

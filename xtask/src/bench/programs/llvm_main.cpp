// A C++ compiler in one file: `program -triple TARGET -S -x c++ FILE -o -` compiles for any target that LLVM knows.
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/Version.inc"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/FrontendTool/Utils.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

int main(int argc, char **argv) {
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::InitializeAllAsmParsers();
  llvm::SmallVector<const char *, 16> arguments(argv + 1, argv + argc);
  // Options of diagnostics are counted references up to LLVM 20, plain references afterwards.
#if CLANG_VERSION_MAJOR < 21
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options(new clang::DiagnosticOptions);
  auto *printer = new clang::TextDiagnosticPrinter(llvm::errs(), options.get());
#else
  clang::DiagnosticOptions options;
  auto *printer = new clang::TextDiagnosticPrinter(llvm::errs(), options);
#endif
  clang::DiagnosticsEngine diagnostics(llvm::IntrusiveRefCntPtr<clang::DiagnosticIDs>(new clang::DiagnosticIDs), options, printer);
  auto compiler = std::make_unique<clang::CompilerInstance>();
  if (!clang::CompilerInvocation::CreateFromArgs(compiler->getInvocation(), arguments, diagnostics, argv[0]))
    return 1;
#if CLANG_VERSION_MAJOR < 20
  compiler->createDiagnostics();
#elif CLANG_VERSION_MAJOR < 22
  compiler->createDiagnostics(*llvm::vfs::getRealFileSystem());
#else
  compiler->createVirtualFileSystem();
  compiler->createDiagnostics();
#endif
  return clang::ExecuteCompilerInvocation(compiler.get()) ? 0 : 1;
}

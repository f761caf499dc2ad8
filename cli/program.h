#pragma once

namespace triaccel::cli {

/// The whole command line; its exit code. A program that registers codecs of its own
/// (triaccel/saved/activation_codec.h) calls it from its main function.
int run_program(int argc, char** argv);

}  // namespace triaccel::cli

#pragma once

#include <string>

#include "triaccel/formats/toml_cursor.h"
#include "triaccel/formats/toml_document.h"

namespace triaccel {

/// A string in one line, in double quotes (with escapes) or single ones (as it stands).
std::string take_toml_string(TomlCursor& cursor);

/// A boolean, number or string; `path` names the key in errors.
TomlValue take_toml_scalar(TomlCursor& cursor, const std::string& path);

}  // namespace triaccel

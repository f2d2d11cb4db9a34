# Shows our comments to Doxygen, which reads only marked ones: a comment above a declaration documents it, and all others until the next
# empty line; one behind a declaration documents that; one at a file's head the file.

function as_text(comment) {
  gsub(/</, "\\&lt;", comment)
  gsub(/#/, "\\#", comment)
  return comment
}

# A paragraph: a comment, then declarations. As a group, they share the comment; a type has it for itself.
function put_paragraph(   i, is_group) {
  is_group = comment_lines > 0 && line_count > comment_lines + 1 && braces == 0 && !is_type
  for (i = 1; i <= line_count; ++i) {
    print lines[i]
    if (i == comment_lines && is_group) print "///@{"
  }
  if (is_group) print "///@}"
  line_count = comment_lines = braces = is_type = 0
}

/^#pragma once/ { put_paragraph(); in_body = 1; print; next }
!in_body {
  if (NR == 1) print "/// @file"
  print "///" as_text(substr($0, 3))
  next
}
/^ *$|^ (public|private|protected):$/ { put_paragraph(); print; next }
{
  line = $0
  if (line ~ /^ *\/\/ ----/) line = ""
  else if (line ~ /^ *\/\/ /) {
    sub(/\/\/ /, "/// ", line)
    line = as_text(line)
    if (comment_lines == line_count) ++comment_lines
  } else {
    if (line ~ /^ *(typedef )?(enum|struct|class) /) is_type = 1
    bare = line
    sub(/ \/\/ .*/, "", bare)
    braces += gsub(/[{(]/, "", bare) - gsub(/[})]/, "", bare)
    if (line !~ /NOLINT|IWYU|}  \/\/ namespace/ && match(line, / \/\/ /))
      line = substr(line, 1, RSTART) "///< " as_text(substr(line, RSTART + 4))
  }
  lines[++line_count] = line
}
END { put_paragraph() }

package glob

// expand returns the patterns without braces that a valid pattern stands for, or
// nil when they are too many.
func expand(text string) []string {
	var done []string
	size := 0
	for todo := []string{text}; len(todo) > 0; {
		last := len(todo) - 1
		next := todo[last]
		todo = todo[:last]
		alternatives := expandFirst(next)
		if alternatives == nil {
			done = append(done, next)
			size += len(next)
		}
		for i := len(alternatives); i > 0; i-- {
			todo = append(todo, alternatives[i-1])
		}
		if len(done)+len(todo) > maxAlternatives || size > maxBytes {
			return nil
		}
	}
	return done
}

// expandFirst replaces the first braces by each of their alternatives. Without
// braces it returns nil.
func expandFirst(text string) (alternatives []string) {
	depth, start, from := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = endOfClass(text, i)
		case c == '{':
			if depth++; depth == 1 {
				start, from = i, i+1
			}
		case c == ',' && depth == 1, c == '}' && depth == 1:
			alternatives = append(alternatives, text[:start]+text[from:i])
			if from = i + 1; c == '}' {
				for n := range alternatives {
					alternatives[n] += text[from:]
				}
				return alternatives
			}
		case c == '}' && depth > 0:
			depth--
		}
	}
	return nil
}

// endOfClass is where the brackets end that begin at start.
func endOfClass(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return len(text)
}

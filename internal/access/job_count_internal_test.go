package access

import "testing"

// A database count concurrent with changes of jobs leaves a number that the node knows better, and corrects one that
// it does not.
func TestJobsAreCountedExactly(t *testing.T) {
	cases := map[string]struct {
		play func(c *jobCount)
		want int64 // pending
		left int64 // of 100
	}{
		"the first count":                     {func(c *jobCount) { c.count(); c.learn(40) }, 40, 60},
		"jobs that began before it":           {func(c *jobCount) { c.settle(0, 3); c.count(); c.learn(40) }, 40, 60},
		"jobs that other nodes began":         {func(c *jobCount) { c.first(10); c.count(); c.learn(40) }, 40, 60},
		"jobs that the sweep ended":           {func(c *jobCount) { c.first(40); c.count(); c.learn(10) }, 10, 90},
		"began meanwhile, and are not in it":  {func(c *jobCount) { c.first(10); c.begin(5); c.count(); c.settle(5, 5); c.learn(10) }, 15, 85},
		"began meanwhile, and are in it":      {func(c *jobCount) { c.first(10); c.begin(5); c.count(); c.settle(5, 5); c.learn(15) }, 15, 85},
		"are written, and settled after it":   {func(c *jobCount) { c.first(10); c.begin(5); c.count(); c.learn(15); c.settle(5, 5) }, 15, 85},
		"ended meanwhile, and are in it":      {func(c *jobCount) { c.first(10); c.count(); c.settle(0, -4); c.learn(10) }, 6, 94},
		"ended, and are not in it any more":   {func(c *jobCount) { c.first(10); c.count(); c.settle(0, -4); c.learn(6) }, 6, 94},
		"ended, and settled after it":         {func(c *jobCount) { c.first(10); c.begin(-4); c.count(); c.learn(6); c.settle(-4, -4) }, 6, 94},
		"fail":                                {func(c *jobCount) { c.first(10); c.begin(5); c.count(); c.learn(10); c.settle(5, 0) }, 10, 90},
		"are under way":                       {func(c *jobCount) { c.first(10); c.begin(5); c.count(); c.learn(10) }, 10, 85},
		"end, and make no room before it":     {func(c *jobCount) { c.first(10); c.begin(-5) }, 10, 90},
		"are more than there is room for":     {func(c *jobCount) { c.first(98); c.begin(3) }, 98, 2},
		"are as many as there is room for":    {func(c *jobCount) { c.first(98); c.begin(2); c.begin(1) }, 98, 0},
		"an old count, with others meanwhile": {func(c *jobCount) { c.first(10); c.count(); c.settle(0, 5); c.learn(90) }, 90, 10},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var n jobCount
			c.play(&n)
			if got, left := n.Load(), n.left(100); got != c.want || left != c.left {
				t.Errorf("%d are pending, and %d are left; want %d and %d", got, left, c.want, c.left)
			}
		})
	}
}

// first applies an initial count.
func (c *jobCount) first(counted int64) {
	c.count()
	c.learn(counted)
}

// begin reserves jobs to create or, if negative, to end.
func (c *jobCount) begin(jobs int64) { c.reserve(jobs, 100) }

package apps

import (
	"bytes"
	raster "image" // image is the function that makes one to run
	"image/color"
	"image/png"
	"testing"
)

// A picture keeps its size and the colours that it has much of; what is rare becomes what is near.
func TestSmallPictures(t *testing.T) {
	full := raster.NewRGBA(raster.Rect(0, 0, 100, 100))
	for i := range 10_000 {
		c := color.RGBA{255, 255, 255, 255}
		if i < 3_000 {
			c = color.RGBA{uint8(i % 200), 0, 0, 255}
		} else if i < 3_100 { // each once
			c = color.RGBA{0, uint8(i % 100), 200, 255}
		}
		full.SetRGBA(i%100, i/100, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, full); err != nil {
		t.Fatal(err)
	}
	picture, err := small(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(picture))
	if err != nil || got.Bounds() != full.Bounds() {
		t.Fatalf("%v, %v", got.Bounds(), err)
	}
	colours := map[color.Color]bool{}
	for i := range 10_000 {
		c, was := color.RGBAModel.Convert(got.At(i%100, i/100)).(color.RGBA), full.RGBAAt(i%100, i/100)
		colours[c] = true
		if (i < 3_000 || i >= 3_100) && c != was {
			t.Fatalf("point %d is %v, and was %v", i, c, was)
		}
		if d := int(c.G) - int(was.G); c.B != was.B || d > 44 || d < -44 {
			t.Errorf("point %d is %v, and was %v", i, c, was)
		}
	}
	if len(colours) > 256 {
		t.Errorf("%d colours", len(colours))
	}
	if _, err := small([]byte("no picture")); err == nil {
		t.Error("what is no picture was read")
	}
}
